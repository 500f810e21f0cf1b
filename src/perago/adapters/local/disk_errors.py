"""The local disk's refusals as one error that names the path; the only such mapping here."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perago.ports.errors import LocalDiskError

_REMEDIES = {
    errno.ENOSPC: "free space or move PERAGO_WORKSPACE_ROOT to a larger disk",
    errno.EDQUOT: "raise the quota or move PERAGO_WORKSPACE_ROOT to another disk",
    errno.EACCES: "give the worker's user access to it",
    errno.EPERM: "give the worker's user access to it",
    errno.EROFS: "move PERAGO_WORKSPACE_ROOT to a writable disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


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
