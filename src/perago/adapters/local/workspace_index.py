"""What was materialised, with the stamps that tell an untouched file from a suspect.

A file whose stamp (size, mtime, ctime, inode) is the recorded one was not written since; every
other file is hashed. Knows no server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from perago.adapters.local.directory_scan import ScannedFile, scan
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.object_transport import Fetched


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One object as it was materialised: its content, and what it says of itself."""

    facts: FileFacts
    content_type: str
    metadata: Mapping[str, str]


@final
class WorkspaceIndex:
    """The files of one materialised workspace by relative path."""

    def __init__(self, directory: Path, fetched: Sequence[Fetched]) -> None:
        """Begin with files that have just been written and closed, each with its stamp."""
        self._directory = directory
        status = directory.lstat()
        self._identity = status.st_dev, status.st_ino
        self._room = f"{directory}/"
        self._fetched = fetched

    @cached_property
    def _files(self) -> Mapping[str, Fetched]:
        """By full path, which every order has; made when the plan first asks for it."""
        return {str(one.order.where): one for one in self._fetched}

    @cached_property
    def _newest_ctime_ns(self) -> int:
        return max((one.stamp[2] for one in self._fetched if one.stamp is not None), default=0)

    @property
    def base(self) -> Mapping[str, FileFacts]:
        """What the workspace held when it was materialised."""
        outer = len(self._room)
        return {where[outer:]: _facts(where[outer:], one) for where, one in self._files.items()}

    def left_alone(self, plan: SyncPlan) -> int:
        """How many files a plan leaves as they were."""
        written = sum(self._room + facts.path in self._files for facts in plan.upload)
        return len(self._files) - written - len(plan.delete)

    def is_same_directory(self) -> bool:
        """Whether the directory is still the one that was filled."""
        try:
            status = self._directory.lstat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def get(self, path: str) -> IndexedFile | None:
        """What is known of a path from the start."""
        one = self._files.get(self._room + path)
        if one is None:
            return None
        entry = one.order.entry
        return IndexedFile(_facts(path, one), entry.content_type, entry.metadata)

    def is_untouched(self, file: ScannedFile) -> bool:
        """Whether a file has the stamp it was recorded with, and the stamp can be trusted.

        A write in the very clock tick of the last recorded file could leave its stamp as it
        was; such files are never trusted.
        """
        one = self._files.get(self._room + file.path)
        is_same = one is not None and one.stamp == file.stamp
        return is_same and file.ctime_ns < self._newest_ctime_ns

    def survey(self) -> "Survey":
        """Walk the directory and part its files into untouched ones and suspects."""
        untouched: dict[str, FileFacts] = {}
        suspects: list[ScannedFile] = []
        for file in scan(self._directory):
            if self.is_untouched(file):
                one = self._files[self._room + file.path]
                untouched[file.path] = _facts(file.path, one)
            else:
                suspects.append(file)
        return Survey(untouched, suspects)


def _facts(path: str, one: Fetched) -> FileFacts:
    """Made when asked for: most workspaces are only read."""
    return FileFacts(path, one.md5, one.order.entry.size)


@dataclass(frozen=True, slots=True)
class Survey:
    """One walk: what is known without reading, and what has to be hashed."""

    untouched: dict[str, FileFacts]
    suspects: list[ScannedFile]
