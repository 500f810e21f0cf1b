"""Which directory is safe as a root: nobody but this user, and root, can replace what is in it.

Also where the roots are when no setting says so. Creates nothing.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import gettempdir

from perago.domain.authoring_errors import RuntimeConfigError


def default_root(environment: Mapping[str, str] = os.environ, temporary: str | None = None) -> Path:
    """Where Perago keeps its files unless settings say otherwise.

    The state directory, because attempts and logs have to outlive a log-out and need a real disk:
    `XDG_RUNTIME_DIR` is a small file system in memory that goes with the session. A user without a
    home, as in many containers, gets a directory in the temporary one that names his number.
    """
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    places = [Path(state)] if Path(state).is_absolute() else []
    if Path(home).is_absolute():
        places.append(Path(home) / ".local" / "state")
    for place in places:
        nearest = next(each for each in (place, *place.parents) if each.exists())
        if os.access(nearest, os.W_OK | os.X_OK) and nearest != Path("/"):
            return place / "perago"
    return Path(temporary or gettempdir()) / f"perago-{os.geteuid()}"


def check_private_root(root: Path, variable: str) -> None:
    """Refuse a root that another user owns or can write to, or can replace from above.

    In a directory like `/tmp` another user may have made `perago` first: everything below would be
    his to read, to replace, and to point at files of ours.
    """
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}  # who owns "/" is root, under any number
    for place in _leading_to(root.absolute()):
        status = place.lstat()
        if status.st_uid not in trusted:
            raise _refused(root, variable, f"{place} belongs to the user {status.st_uid}")
    resolved = root.resolve()
    for place in (resolved, *resolved.parents):
        if _is_open(place, is_root=place == resolved):
            mend = f"; or run: chmod go-w {place}"
            raise _refused(root, variable, f"other users can write to {place}", mend)


def _leading_to(path: Path) -> Iterator[Path]:
    """The path, everything above it, and the same for what its links stand for."""
    yield from (path, *path.parents)
    resolved = path.resolve()
    if resolved != path:
        yield from (resolved, *resolved.parents)


def _is_open(place: Path, *, is_root: bool) -> bool:
    """Whether other users can make and rename entries of a directory."""
    status = place.stat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    if not is_sticky and place.is_mount():
        # A volume that was mounted for the worker: Kubernetes makes an emptyDir writable to every
        # user, and the users of a pod are the worker's own containers. /tmp is always sticky.
        return False
    if not is_root:
        # In a sticky directory only the owner of an entry can rename it, and we know the owners.
        return bool(status.st_mode & stat.S_IWOTH) and not is_sticky
    # With a umask of 002 directories are writable to the user's own group, which has no one else.
    foreign_group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getegid()
    return bool(status.st_mode & stat.S_IWOTH) or foreign_group


def _refused(root: Path, variable: str, found: str, mend: str = "") -> RuntimeConfigError:
    return RuntimeConfigError(
        f"{root} is not private: {found}; expected a directory of this user (number"
        f" {os.geteuid()}) that no one else can write to, below directories of this user or root;"
        f' use another: mkdir -p -m 700 "$HOME/perago" && export {variable}="$HOME/perago"{mend}',
        code="PRG-C013",
    )
