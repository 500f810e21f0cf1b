"""The local disk: what its names can be, copies and checksums of files.

Knows paths and bytes; what a file stands for is not known here.
"""

import errno
import fcntl
import hashlib
import os
import stat
import unicodedata
from functools import partial
from pathlib import Path
from typing import BinaryIO

from perago.domain.paths import NameRules

MD5 = partial(hashlib.md5, usedforsecurity=False)
# Linux refuses longer paths (PATH_MAX is 4096 with the closing NUL).
_PATH_BYTES_MAX = 4095
# Upper case and the decomposed form of this name are other names, unless the disk folds them.
_PROBE_NAME = ".perago-probe-\u00e9"
# Without O_NONBLOCK, opening a FIFO waits for a writer, perhaps for ever.
_READ_ONLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE = 0x40049409  # of linux/fs.h; the oldest Python that we support has no name for it
_CANNOT_SHARE_BLOCKS = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)


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


# Larger pieces are memory that the system gives and takes for each file, and most files are small.
_DIGEST_BYTES = 64 * 1024


def md5_of_file(path: str | Path) -> str:
    """The MD5 of a local file, whatever its size.

    By descriptor: a file object and its buffer cost more than the bytes of a small file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        digest = MD5()
        while piece := os.read(descriptor, _DIGEST_BYTES):
            digest.update(piece)
        return digest.hexdigest()
    finally:
        os.close(descriptor)


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


def copy_file(source: BinaryIO, target: BinaryIO, size: int, copied_max: int | None = None) -> bool:
    """Copy to an empty file; False when that is not exactly so long, or would cost too much.

    Never a hard link, because a task may write to what it was given. The kernel moves the bytes,
    and never more than `size`, so that a file that grows meanwhile fills neither this process
    nor the disk. Files that share blocks cost nothing; `copied_max` bounds all others.
    """
    if not _shares_blocks(source, target) and (copied_max is None or size <= copied_max):
        left = size
        while left and (count := os.sendfile(target.fileno(), source.fileno(), None, left)):
            left -= count
    return os.fstat(target.fileno()).st_size == size


def _shares_blocks(source: BinaryIO, target: BinaryIO) -> bool:
    """Let an empty file share the blocks of another (a reflink); False where the disk cannot."""
    try:
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError as error:
        if error.errno not in _CANNOT_SHARE_BLOCKS:
            raise
        return False
    return True
