"""Copying one local file to another: shared blocks where the file system can, else the bytes.

Never a hard link: a task may write to what it was given.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO, final

_FICLONE = 0x40049409
_CANNOT = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
# Without O_NONBLOCK, opening a FIFO waits for a writer, perhaps for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path, size: int) -> BinaryIO | None:
    """Open a regular file of exactly this size; None for anything else that stands there.

    A task may have put a FIFO, a link, or a much larger file where its input was.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size == size:
        return os.fdopen(descriptor, "rb", buffering=0)
    os.close(descriptor)
    return None


@final
class FileCopies:
    """Remembers which pairs of devices cannot share blocks."""

    def __init__(self) -> None:
        self._without_reflink: set[tuple[int, int]] = set()

    def copy(self, source: BinaryIO, target: BinaryIO, size: int) -> bool:
        """Copy to an empty file; False when the source is no longer exactly this long.

        The kernel moves the bytes, and never more than `size`, so that a file that grows
        meanwhile fills neither this process nor the disk.
        """
        if not self.reflink(source, target):
            left = size
            while left and (count := os.sendfile(target.fileno(), source.fileno(), None, left)):
                left -= count
        return os.fstat(target.fileno()).st_size == size

    def reflink(self, source: BinaryIO, target: BinaryIO) -> bool:
        """Share the blocks of a file with an empty one, if the file system can."""
        devices = os.fstat(source.fileno()).st_dev, os.fstat(target.fileno()).st_dev
        if devices in self._without_reflink:
            return False
        try:
            fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._without_reflink.add(devices)
            return False
        return True
