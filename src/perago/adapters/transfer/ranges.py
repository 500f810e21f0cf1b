"""One large object in several requests at once, each a stretch of it.

The stretches land in one temporary file, are hashed in order as they arrive, and the file takes
its name when it is whole and verified.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.client import PARTIAL_CONTENT
from pathlib import Path
from threading import Lock
from typing import final

from perago.adapters.transfer.connections import Connections, Request
from perago.adapters.transfer.failures import BrokenError
from perago.adapters.transfer.landing import (
    PART_PREFIX,
    PIECE_BYTES,
    local_disk,
    verify,
)
from perago.ports.object_transport import FetchOrder

SPLIT_BYTES_MIN = 32 * 1024 * 1024
RANGE_BYTES = 16 * 1024 * 1024


@final
class RangedFetch:
    """One object under way in stretches."""

    def __init__(
        self,
        order: FetchOrder,
        connections: Connections,
        ask: Callable[[], Request],
    ) -> None:
        self.order = order
        self._connections = connections
        self._ask = ask
        self._part = order.target.with_name(f"{PART_PREFIX}{os.getpid()}-{id(self):x}")
        self._lock = Lock()
        self._landed: set[int] = set()
        self._hashed = 0
        self._digest = hashlib.md5(usedforsecurity=False)

    @property
    def starts(self) -> range:
        """Where the stretches begin."""
        return range(0, self.order.entry.size, RANGE_BYTES)

    def stretch_size(self, start: int) -> int:
        """How long the stretch at an offset is."""
        return min(RANGE_BYTES, self.order.entry.size - start)

    def fetch(self, start: int) -> str:
        """Bring one stretch; the last one to arrive gives the MD5 of all, others nothing."""
        end = start + self.stretch_size(start)
        request = self._ask()
        headers = {**request.headers, "Range": f"bytes={start}-{end - 1}"}
        with self._connections.exchange(replace(request, headers=headers)) as answer:
            if answer.status != PARTIAL_CONTENT:
                raise BrokenError(f"a range was asked for and answered with {answer.status}")
            with local_disk(self._part):
                descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                buffer = memoryview(bytearray(PIECE_BYTES))
                offset = start
                while offset < end and (count := answer.readinto(buffer)):
                    with local_disk(self._part):
                        os.pwrite(descriptor, buffer[:count], offset)
                    offset += count
            finally:
                os.close(descriptor)
            answer.read()
        if offset != end:
            raise BrokenError(f"{offset - start} of {end - start} bytes of a range arrived")
        return self._landed_at(start)

    def clean_up(self) -> None:
        """Remove the temporary file, if it is still there."""
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

    def _landed_at(self, start: int) -> str:
        with self._lock, local_disk(self._part):
            self._landed.add(start)
            with self._part.open("rb", buffering=0) as file:
                while self._hashed in self._landed:
                    self._hash(file.fileno(), self._hashed)
            if self._hashed < self.order.entry.size:
                return ""
            md5 = self._digest.hexdigest()
            verify(self.order, _size(self._part), md5)
            self._part.rename(self.order.target)
            return md5

    def _hash(self, descriptor: int, start: int) -> None:
        end = start + self.stretch_size(start)
        while start < end:
            piece = os.pread(descriptor, min(PIECE_BYTES, end - start), start)
            if not piece:
                break  # somebody cut the file; the digest will say so
            self._digest.update(piece)
            start += len(piece)
        self._hashed = end


def _size(path: Path) -> int:
    return path.stat().st_size
