"""Local files on their way to or from lakeFS: errors of the disk never look like lost answers.

Knows files only. Moves nothing by itself.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from perago.ports.errors import LocalDiskError


class FileSource:
    """One open file as a request body of exactly the size it had when it was opened."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.size = os.fstat(file.fileno()).st_size
        self._path = path
        self._file = file
        self._left = self.size

    def read(self, amount: int = -1, /) -> bytes:
        """The next piece; a file that shrank meanwhile is an error, not a short body."""
        wanted = self._left if amount < 0 else min(amount, self._left)
        try:
            piece = self._file.read(wanted)
        except OSError as error:
            raise LocalDiskError(f"read {self._path}: {error}") from error
        if len(piece) < wanted:
            raise LocalDiskError(f"read {self._path}: it shrank while it was uploaded")
        self._left -= len(piece)
        return piece


def open_source(path: Path) -> BinaryIO:
    """Open a file for upload."""
    try:
        return path.open("rb")
    except OSError as error:
        raise LocalDiskError(f"read {path}: {error}") from error


def write_new(target: Path, pieces: Iterable[bytes]) -> None:
    """Write pieces into a file that does not exist yet; leave none behind when they stop."""
    try:
        file = target.open("xb")
    except OSError as error:
        raise LocalDiskError(f"write {target}: {error}") from error
    try:
        with file:
            for piece in pieces:
                _write(target, file, piece)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _write(target: Path, file: BinaryIO, piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise LocalDiskError(f"write {target}: {error}") from error
