"""Local files on their way up: announced with a size, sent by the kernel where it can.

Tells a disk that refuses from a network that does. Knows no route.
"""

import http.client
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import final

from perago.adapters.transfer.landing import local_disk
from perago.ports.errors import LocalDiskError

AT_ONCE_BYTES_MAX = 256 * 1024


@final
@dataclass(frozen=True, slots=True)
class FileBody:
    """A stretch of an open file, with what stands before and behind it."""

    path: Path
    file: FileIO
    start: int
    length: int
    before: bytes = b""
    behind: bytes = b""

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return len(self.before) + self.length + len(self.behind)

    def send(self, connection: http.client.HTTPConnection) -> None:
        """Send the stretch; a file that has become shorter ends the request."""
        if self.length <= AT_ONCE_BYTES_MAX:
            with local_disk(self.path):
                content = os.pread(self.file.fileno(), self.length, self.start)
            self._check(len(content))
            connection.send(self.before + content + self.behind)
            return
        if self.before:
            connection.send(self.before)
        self._check(connection.sock.sendfile(self.file, self.start, self.length))
        if self.behind:
            connection.send(self.behind)

    def _check(self, sent: int) -> None:
        if sent != self.length:
            raise LocalDiskError(
                f"{self.path} became shorter while it was uploaded: expected {self.length}"
                f" bytes, found {sent}; nothing was published;"
                " a process of the task may still write to it"
            )


@contextmanager
def open_to_send(path: Path) -> Generator[tuple[FileIO, int]]:
    """An open file and its size now."""
    with local_disk(path):
        file = FileIO(path, "rb")
    with file:
        yield file, os.fstat(file.fileno()).st_size
