"""The directories that settings name: where they are by default, and who may write to them.

`check_private_root` refuses a root in which another user could replace files: that user would
decide what an attempt publishes.
"""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from perago.domain.errors import RuntimeConfigError


def default_root(environment: Mapping[str, str] = os.environ, temporary: str | None = None) -> Path:
    """Where Perago keeps its files unless settings say otherwise.

    The state directory, because attempts and logs have to outlive a log-out and need a real disk:
    `XDG_RUNTIME_DIR` is a small file system in memory that goes with the session. A user without a
    home, as in many containers, gets a directory in the temporary one that names his number.
    """
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    folders = [Path(state)] if Path(state).is_absolute() else []
    if Path(home).is_absolute():
        folders.append(Path(home) / ".local" / "state")
    for folder in folders:
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        # Only the root directory is there of a home like `/nonexistent`: it is none, though root
        # could make it.
        if os.access(nearest, os.W_OK | os.X_OK) and nearest != Path("/"):
            return folder / "perago"
    return Path(temporary or tempfile.gettempdir()) / f"perago-{os.geteuid()}"


def check_writable_root(path: Path, variable: str) -> None:
    """Create a root if it is not there, for its owner only, and write into it once."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private_root(path, variable)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise RuntimeConfigError(f"{path} is not writable: {error}", code="PRG-C005") from error


def check_private_root(root: Path, variable: str) -> None:
    """Refuse a root that another user owns or can write to, or can replace from above.

    In a directory like `/tmp` another user may have made `perago` first: everything below would be
    his to read, to replace, and to point at files of ours.
    """
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}  # who owns "/" is root, under any number
    for folder in _leading_to(root.absolute()):
        status = folder.lstat()
        if status.st_uid not in trusted:
            raise _refused(root, variable, f"{folder} belongs to the user {status.st_uid}")
    resolved = root.resolve()
    for folder in (resolved, *resolved.parents):
        if _is_open(folder, is_root=folder == resolved):
            mend = f"; or run: chmod go-w {folder}"
            raise _refused(root, variable, f"other users can write to {folder}", mend)


def _leading_to(path: Path) -> Iterator[Path]:
    """The path, everything above it, and the same for what its links stand for."""
    yield from (path, *path.parents)
    resolved = path.resolve()
    if resolved != path:
        yield from (resolved, *resolved.parents)


def _is_open(folder: Path, *, is_root: bool) -> bool:
    """Whether other users can make and rename entries of a directory."""
    status = folder.stat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    if not is_sticky and folder.is_mount():
        # A volume that was mounted for the worker: Kubernetes makes an emptyDir writable to every
        # user, and the users of a pod are the worker's own containers. /tmp is always sticky.
        return False
    if not is_root:
        # In a sticky directory only the owner of an entry can rename it, and we know the owners.
        return bool(status.st_mode & stat.S_IWOTH) and not is_sticky
    # With a umask of 002 directories are writable to the group of the user, which has one member.
    foreign_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getegid()
    return bool(status.st_mode & stat.S_IWOTH) or foreign_group


def _refused(root: Path, variable: str, found: str, mend: str = "") -> RuntimeConfigError:
    return RuntimeConfigError(
        f"{root} is not private: {found}; expected a directory of this user (number"
        f" {os.geteuid()}) that no other user can write to, below directories of this user or root;"
        f' use another: mkdir -p -m 700 "$HOME/perago" && export {variable}="$HOME/perago"{mend}',
        code="PRG-C013",
    )
