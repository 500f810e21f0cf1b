"""Removing a directory with all it holds, whatever permissions a body left in it.

Follows no symlink.
"""

import shutil
import stat
from collections.abc import Callable
from pathlib import Path


def remove_tree(directory: Path) -> None:
    """Remove a directory; one that vanished meanwhile is removed as well."""
    shutil.rmtree(directory, onerror=_open_up_and_retry)


def _open_up_and_retry(
    _remove: Callable[[str], object], path: str, failure: tuple[type, BaseException, object]
) -> None:
    error = failure[1]
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError):
        raise error
    stuck = Path(path)
    for closed in (stuck.parent, stuck):
        if closed.is_dir() and not closed.is_symlink():
            closed.chmod(stat.S_IRWXU)
    if stuck.is_dir() and not stuck.is_symlink():
        shutil.rmtree(stuck)
    else:
        stuck.unlink(missing_ok=True)
