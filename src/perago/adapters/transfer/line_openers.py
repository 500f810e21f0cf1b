"""Connections opened side by side, so that a far server costs one round trip and not many.

Opening blocks, so each is opened in a thread of its own; who wants them waits for a wake-up.
"""

import http.client
import socket
from collections import deque
from contextlib import suppress
from threading import Lock, Thread
from typing import final

from perago.adapters.transfer.connections import Connections
from perago.adapters.transfer.failures import NETWORK_ERRORS, BrokenError


@final
class LineOpeners:
    """Connections under way to one origin; `wake_up` is readable when one has arrived or failed."""

    def __init__(self, connections: Connections, origin: str) -> None:
        self._connections = connections
        self.origin = origin
        self._lock = Lock()
        self._opened: deque[http.client.HTTPConnection | None] = deque()
        self._is_over = False
        self.under_way = 0
        self.wake_up, self._bell = socket.socketpair()
        self.wake_up.setblocking(False)  # noqa: FBT003 - its only parameter
        self._bell.setblocking(False)  # noqa: FBT003 - its only parameter

    def want(self, count: int) -> None:
        """Take kept connections, and open what is lacking."""
        for _ in range(count):
            kept = self._connections.take(self.origin)
            with self._lock:
                self.under_way += 1
            if kept is None:
                Thread(target=self._open, name="perago-connect", daemon=True).start()
            else:
                self._arrived(kept)

    def taken(self) -> list[http.client.HTTPConnection]:
        """What has arrived since the last call."""
        with self._lock:
            while self._heard():
                pass
            opened = list(self._opened)
            self._opened.clear()
            self.under_way -= len(opened)
        return [connection for connection in opened if connection is not None]

    def close(self) -> None:
        """Want no more; what still arrives is kept for others."""
        with self._lock:
            self._is_over = True
            opened = list(self._opened)
            self._opened.clear()
            self.wake_up.close()
            self._bell.close()
        for connection in opened:
            if connection is not None:
                self._connections.keep(self.origin, connection)

    def _open(self) -> None:
        try:
            self._arrived(self._connections.open(self.origin))
        except (*NETWORK_ERRORS, BrokenError):
            # Whoever is left without a line asks again elsewhere and hears the reason.
            self._arrived(None)

    def _arrived(self, connection: http.client.HTTPConnection | None) -> None:
        with self._lock:
            if not self._is_over:
                self._opened.append(connection)
                with suppress(BlockingIOError):  # rung often enough
                    self._bell.send(b"!")
                return
        if connection is not None:
            self._connections.keep(self.origin, connection)

    def _heard(self) -> bool:
        try:
            return bool(self.wake_up.recv(1024))
        except BlockingIOError:
            return False
