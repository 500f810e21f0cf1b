"""Removing a directory with all it holds, whatever a body left in it.

Follows no symlink, opens closed directories, and needs neither the stack of the interpreter nor a
path: a body may leave a tree that is deeper than either allows.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class _Level:
    """One directory on the way down: its name in its parent, who it is, and what is left in it."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


def remove_tree(directory: Path) -> None:
    """Remove a directory; one that vanished meanwhile is removed as well."""
    try:
        parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        current = _entered(parent, directory.name)
        if current is not None:
            _empty(current, directory.name)
        _drop(parent, directory.name)
    finally:
        os.close(parent)


def _empty(current: int, name: str) -> None:
    """Remove what a directory holds, deepest first; closes its descriptor.

    One descriptor walks down by names and up by "..": one for each level would be too many.
    """
    try:
        levels = [_Level(name, _identity(current), _without_files(current))]
        while True:
            level = levels[-1]
            if level.folders:
                below = _entered(current, level.folders[-1])
                if below is None:
                    _drop(current, level.folders.pop())
                    continue
                os.close(current)
                current = below
                levels.append(
                    _Level(level.folders.pop(), _identity(current), _without_files(current))
                )
                continue
            levels.pop()
            if not levels:
                return
            above = os.open("..", os.O_RDONLY | _DIRECTORY, dir_fd=current)
            os.close(current)
            current = above
            if _identity(current) != levels[-1].identity:  # never go on in another directory
                raise OSError(f"{level.name} was moved while it was removed")
            _drop(current, level.name)
    finally:
        os.close(current)


def _entered(parent: int, name: str) -> int | None:
    """Open a directory for all that removing needs; None when it is gone.

    A closed one (mode 000) is opened up first, through a handle that needs no permission: changing
    the mode by name would follow a symlink that somebody puts there meanwhile.
    """
    try:
        handle = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)  # noqa: PTH101 - a handle, no path
        return os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _without_files(directory: int) -> list[str]:
    """Remove what is no directory; the names of the directories."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
    return [name for name, is_folder in found if is_folder]


def _drop(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)


def _identity(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino
