"""Local files that objects come from and go to; errors of the disk never look like lost answers.

A file that arrives has a temporary name until all its bytes are there and are those that lakeFS
listed. Everything here blocks.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import final

from perago.domain.paths import md5_of_checksum
from perago.ports.errors import DamagedObjectError, LocalDiskError, disk_errors
from perago.ports.objects import Fetched, FetchOrder, stamp_of

PART_PREFIX = ".perago-part-"
# hashlib lets other threads run while it digests a piece of more than 2 KiB. Larger ones would only
# be memory, of each of the threads that digest (HANDS_MAX in `client`).
DIGEST_BYTES = 1024 * 1024
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# A process that a task left behind may have put a FIFO or a link in the place of its output.
_SOURCE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class OtherChecksumError(DamagedObjectError):
    """As many bytes as were listed arrived, with another MD5 than the listed checksum."""

    def __init__(self, text: str, md5: str) -> None:
        super().__init__(text)
        self.md5 = md5


def write_whole(
    order: FetchOrder, content: bytes | bytearray, accepted: str | None = None
) -> Fetched:
    """Write a small object that is in memory; on a refusal no file is left."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    _verify(order, len(content), md5, accepted)
    try:
        descriptor = os.open(order.where, os.O_WRONLY | _NEW_FILE, 0o666)
        try:
            _write_all(descriptor, memoryview(content), 0)
            return Fetched(order, md5, stamp_of(os.fstat(descriptor)))
        except BaseException:
            os.unlink(order.where)  # noqa: PTH108 - the name may be text
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LocalDiskError.of(order.where, error) from error


@final
class ArrivingFile:
    """One object on its way to the disk, digested in order.

    The lock keeps the file open under the thread that writes to it: the transfer may be given up
    at any moment, and a descriptor that is closed meanwhile may already be that of another file.
    """

    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._part = order.target.with_name(f"{PART_PREFIX}{os.getpid()}-{id(self):x}")
        self._digest = hashlib.md5(usedforsecurity=False)
        self.size = 0
        self._lock = Lock()
        with disk_errors(self._part):
            self._descriptor = os.open(self._part, os.O_RDWR | _NEW_FILE, 0o666)

    def take(self, piece: bytes) -> None:
        """Append a piece and digest it."""
        self.take_at(self.size, piece)
        self.size += len(piece)
        self._digest.update(piece)

    def take_at(self, offset: int, piece: bytes) -> None:
        """Write a piece of a range; it is digested when all before it is."""
        with self._lock, disk_errors(self._part):
            _write_all(self._descriptor, memoryview(piece), offset)

    def digest_to(self, end: int) -> None:
        """Digest what has arrived without a gap."""
        while self.size < end:
            wanted = min(DIGEST_BYTES, end - self.size)
            with self._lock, disk_errors(self._part):
                piece = os.pread(self._descriptor, wanted, self.size)
            if not piece:
                return  # another process cut the file; the digest will say so
            self._digest.update(piece)
            self.size += len(piece)

    def finish(self, accepted: str | None) -> Fetched:
        """Give the file its name if its bytes are the listed ones, or have the accepted MD5."""
        with self._lock:
            md5 = self._digest.hexdigest()
            _verify(self._order, self.size, md5, accepted)
            with disk_errors(self._order.where):
                self._part.rename(self._order.target)
                # After the rename, because it changes the ctime, which is part of the stamp.
                return Fetched(self._order, md5, stamp_of(os.fstat(self._descriptor)))

    def close(self) -> None:
        """Close the file, and remove it if it has not got its name."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                with suppress(OSError):
                    self._part.unlink(missing_ok=True)


@final
class LeavingFile:
    """One local file as it was when it was opened; one that changes its size is an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors(path):
            self._descriptor = os.open(path, _SOURCE)
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise LocalDiskError(f"{path}: expected a regular file")

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Read exactly so many bytes."""
        with disk_errors(self._path):
            piece = os.pread(self._descriptor, length, offset)
        if len(piece) < length:
            raise LocalDiskError(
                f"{self._path} became shorter while it was uploaded: expected {self.size} bytes,"
                f" found {offset + len(piece)}; nothing was published;"
                " a process of the task may still write to it"
            )
        return piece

    def digest(self, start: int, length: int, *updates: Callable[[bytes], object]) -> None:
        """Give a stretch of it to each digest."""
        for offset in range(start, start + length, DIGEST_BYTES):
            piece = self.read(offset, min(DIGEST_BYTES, start + length - offset))
            for update in updates:
                update(piece)


def _verify(order: FetchOrder, size: int, md5: str, accepted: str | None) -> None:
    """Raise unless the bytes are those that were listed."""
    entry = order.entry
    expected = md5_of_checksum(entry.checksum) or md5
    if size == entry.size and md5 in {expected, accepted}:
        return
    text = (
        f"{entry.path} arrived damaged: expected {entry.size} bytes with MD5"
        f" {expected}, found {size} bytes with MD5 {md5}; nothing was used"
    )
    raise OtherChecksumError(text, md5) if size == entry.size else DamagedObjectError(text)


def _write_all(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(descriptor, content, offset)
        content, offset = content[count:], offset + count
