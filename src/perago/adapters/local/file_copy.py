"""Copying one local file to another: shared blocks where the file system can, else the bytes.

Never a hard link: a body may write to what it was given.
"""

import errno
import fcntl
import shutil
from pathlib import Path
from typing import final

_FICLONE = 0x40049409
_CANNOT = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)


@final
class FileCopies:
    """Remembers which pairs of devices cannot share blocks."""

    def __init__(self) -> None:
        self._without_reflink: set[tuple[int, int]] = set()

    def copy(self, source: Path, target: Path) -> None:
        """Copy to a path that does not exist yet."""
        with target.open("xb"):
            pass
        if not self.reflink(source, target):
            shutil.copyfile(source, target)

    def reflink(self, source: Path, target: Path) -> bool:
        """Share the blocks of a file with an existing empty one, if the file system can."""
        devices = source.stat().st_dev, target.stat().st_dev
        if devices in self._without_reflink:
            return False
        with source.open("rb") as read, target.open("r+b") as written:
            try:
                fcntl.ioctl(written.fileno(), _FICLONE, read.fileno())
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._without_reflink.add(devices)
                return False
        return True
