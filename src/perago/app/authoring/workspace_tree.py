"""One view of a workspace for guardrails: a directory on disk, or a listing of object paths.

Each directory is scanned at most once, and only when a guardrail asks for it. The attempt marker
and the repository's reserved folder are invisible. Knows nothing of patterns or verdicts.
"""

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol, final

from perago.domain.reserved_paths import ACTIONS_PREFIX, ATTEMPT_MARKER


class EntryKind(Enum):
    """What an entry of a workspace is, as far as guardrails care."""

    FILE = "file"
    DIRECTORY = "directory"
    LINKED_DIRECTORY = "linked directory"
    OTHER = "other"

    @property
    def is_directory(self) -> bool:
        """Whether entries can be below it."""
        return self in {EntryKind.DIRECTORY, EntryKind.LINKED_DIRECTORY}


class WorkspaceTree(Protocol):
    """What a guardrail may ask. Paths are relative and POSIX; the empty path is the root."""

    def kind(self, path: str) -> EntryKind | None:
        """Say what is at `path`, links followed; None when nothing is."""
        ...

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Return the entries of `directory` by name; empty when it is no directory."""
        ...


def is_visible(path: str) -> bool:
    """Whether a path of the workspace may be seen by a guardrail."""
    if path.rsplit("/", 1)[-1] == ATTEMPT_MARKER:
        return False
    return not f"{path}/".startswith(ACTIONS_PREFIX)


@final
class DirectoryTree(WorkspaceTree):
    """A workspace on the local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._scanned: dict[str, Mapping[str, EntryKind]] = {}

    def kind(self, path: str) -> EntryKind | None:
        """Ask the file system about one path."""
        if not is_visible(path):
            return None
        place = self._root / path
        try:
            if place.is_file():
                return EntryKind.FILE
            if place.is_dir():
                return EntryKind.DIRECTORY
            return EntryKind.OTHER if place.exists() else None
        except ValueError:  # a NUL in the path: nothing can be there
            return None

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Scan one directory, or answer from the scan made before."""
        if directory not in self._scanned:
            self._scanned[directory] = self._scan(directory)
        return self._scanned[directory]

    def _scan(self, directory: str) -> Mapping[str, EntryKind]:
        below = f"{directory}/" if directory else ""
        try:
            with os.scandir(self._root / directory) as entries:
                return {
                    entry.name: _kind_of(entry)
                    for entry in entries
                    if is_visible(below + entry.name)
                }
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            return {}


@final
class ListingTree(WorkspaceTree):
    """A workspace known by the paths of its files only; directories are what paths imply."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = paths
        self._indexed: dict[str, dict[str, EntryKind]] | None = None

    def kind(self, path: str) -> EntryKind | None:
        """Look one path up."""
        directory, _, name = path.rpartition("/")
        return self.children(directory).get(name) if path else EntryKind.DIRECTORY

    def children(self, directory: str) -> Mapping[str, EntryKind]:
        """Return the entries below a directory; the listing is read through on first use."""
        if self._indexed is None:
            self._indexed = _index(self._paths)
        return self._indexed.get(directory, {})


def _index(paths: Iterable[str]) -> dict[str, dict[str, EntryKind]]:
    index: dict[str, dict[str, EntryKind]] = {"": {}}
    for path in paths:
        if not is_visible(path):
            continue
        child, kind = path, EntryKind.FILE
        while child:
            directory, _, name = child.rpartition("/")
            known = index.setdefault(directory, {})
            if name in known:
                break
            known[name] = kind
            child, kind = directory, EntryKind.DIRECTORY
    return index


def _kind_of(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_dir():
        return EntryKind.LINKED_DIRECTORY if entry.is_symlink() else EntryKind.DIRECTORY
    return EntryKind.FILE if entry.is_file() else EntryKind.OTHER
