"""A TCP forwarder that counts: how many bytes a client of lakeFS really moved.

Of HTTP it knows the first bytes of a connection at most, by which it tells clients apart. One
thread a direction; it ends with the test.
"""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHUNK_BYTES = 256 * 1024
FIRST_BYTES = 512


@dataclass
class CountedBytes:
    """Where to connect, and what has passed so far."""

    endpoint: str
    bytes: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        """Count bytes of either direction."""
        with self._counting:
            self.bytes += count


@contextmanager
def counted(upstream: str, *, only: bytes = b"") -> Generator[CountedBytes]:
    """Forward a free local port to a server for the time of the block.

    With `only`, connections count whose first bytes hold it.
    """
    address = urlsplit(upstream)
    assert address.hostname is not None
    assert address.port is not None
    target = (address.hostname, address.port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        count = CountedBytes(f"http://127.0.0.1:{listener.getsockname()[1]}")
        given = (listener, target, count, only)
        threading.Thread(target=_accept, args=given, daemon=True).start()
        yield count
        listener.shutdown(socket.SHUT_RDWR)


def _accept(
    listener: socket.socket, target: tuple[str, int], count: CountedBytes, only: bytes
) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection(target)
        threading.Thread(target=_forward, args=(near, far, count, only), daemon=True).start()


def _forward(near: socket.socket, far: socket.socket, count: CountedBytes, only: bytes) -> None:
    """Wait for the first bytes of the client, then pump both directions."""
    with suppress(OSError):
        first = near.recv(FIRST_BYTES, socket.MSG_PEEK)
        add = count.add if only in first else _forget
        threading.Thread(target=_pump, args=(far, near, add), daemon=True).start()
        _pump(near, far, add)


def _forget(_count: int) -> None:
    """Bytes of another client."""


def _pump(source: socket.socket, sink: socket.socket, add: Callable[[int], None]) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            add(len(data))
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
