"""The local disk: its refusals as one error, what its names can be, copies and checksums of files.

Knows paths and bytes; what a file stands for is not known here.
"""

import errno
import fcntl
import hashlib
import os
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from perago.domain.paths import NameRules
from perago.ports.errors import LocalDiskError

_REMEDIES = {
    errno.ENOSPC: "free space or move PERAGO_WORKSPACE_ROOT to a larger disk",
    errno.EDQUOT: "raise the quota or move PERAGO_WORKSPACE_ROOT to another disk",
    errno.EACCES: "give the worker's user access to it",
    errno.EPERM: "give the worker's user access to it",
    errno.EROFS: "move PERAGO_WORKSPACE_ROOT to a writable disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
# Linux refuses longer paths (PATH_MAX is 4096 with the closing NUL).
_PATH_BYTES_MAX = 4095
# Upper case and the decomposed form of this name are other names, unless the disk folds them.
_PROBE_NAME = ".perago-probe-\u00e9"
_HASHED_BYTES_AT_ONCE = 1 << 20  # hashlib lets other threads run only during its own calls
# Without O_NONBLOCK, opening a FIFO waits for a writer, perhaps for ever.
_READ_ONLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE = 0x40049409  # of linux/fs.h; the oldest Python that we support has no name for it
_CANNOT_SHARE_BLOCKS = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)


@contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Raise LocalDiskError for whatever the disk refuses inside the block."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error) from error


def disk_error(path: Path, error: OSError) -> LocalDiskError:
    """The error for one refusal: where, what, and the remedy where there is one."""
    where = error.filename if error.filename is not None else path
    reason = (error.strerror or type(error).__name__).lower()
    remedy = _REMEDIES.get(error.errno or 0)
    return LocalDiskError(f"{where}: {reason}" + (f"; {remedy}" if remedy else ""))


def name_rules(directory: Path) -> NameRules:
    """What the disk of a directory can tell apart and hold; found out by making a file there.

    The kind of the file system does not answer this: ext4 folds case per folder, and a network
    disk does what its server does.
    """
    probe = directory / _PROBE_NAME
    probe.touch(exist_ok=True)
    try:
        return NameRules(
            folds_case=os.path.lexists(directory / _PROBE_NAME.upper()),
            folds_unicode=os.path.lexists(directory / unicodedata.normalize("NFD", _PROBE_NAME)),
            path_bytes_max=_PATH_BYTES_MAX - len(os.fsencode(directory)) - 1,
        )
    finally:
        probe.unlink()


def md5_of_file(path: Path) -> str:
    """The MD5 of a local file, whatever its size."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_HASHED_BYTES_AT_ONCE):
            digest.update(chunk)
    return digest.hexdigest()


def open_regular(path: Path, size: int) -> BinaryIO | None:
    """Open a regular file of exactly this size; None for anything else that stands there.

    A task may have put a FIFO, a link, or a much larger file where its input was.
    """
    try:
        descriptor = os.open(path, _READ_ONLY)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size == size:
        return os.fdopen(descriptor, "rb", buffering=0)
    os.close(descriptor)
    return None


def copy_file(source: BinaryIO, target: BinaryIO, size: int) -> bool:
    """Copy to an empty file; False when the source is no longer exactly this long.

    Never a hard link, because a task may write to what it was given. The kernel moves the bytes,
    and never more than `size`, so that a file that grows meanwhile fills neither this process
    nor the disk.
    """
    if not share_blocks(source, target):
        left = size
        while left and (count := os.sendfile(target.fileno(), source.fileno(), None, left)):
            left -= count
    return os.fstat(target.fileno()).st_size == size


def share_blocks(source: BinaryIO, target: BinaryIO) -> bool:
    """Let an empty file share the blocks of another (a reflink); False where the disk cannot."""
    try:
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError as error:
        if error.errno not in _CANNOT_SHARE_BLOCKS:
            raise
        return False
    return True
