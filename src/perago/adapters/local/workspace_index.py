"""What was materialised, with the stamps that tell an untouched file from a suspect.

A file whose stamp (size, mtime, ctime, inode) is the recorded one was not written since; every
other file is hashed. Knows no server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from perago.adapters.local.directory_scan import ScannedFile, scan
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.object_transport import FileStamp
from perago.ports.objects import ObjectEntry


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One object as it was materialised: its content, and what it says of itself."""

    facts: FileFacts
    content_type: str
    metadata: Mapping[str, str]


@final
class WorkspaceIndex:
    """The files of one materialised workspace by relative path."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        status = directory.lstat()
        self._identity = status.st_dev, status.st_ino
        self._files: dict[str, tuple[ObjectEntry, str]] = {}
        self._stamps: dict[str, FileStamp] = {}
        self._newest_ctime_ns = 0

    @property
    def base(self) -> Mapping[str, FileFacts]:
        """What the workspace held when it was materialised."""
        return {path: self._facts(path) for path in self._files}

    def left_alone(self, plan: SyncPlan) -> int:
        """How many files a plan leaves as they were."""
        written = sum(facts.path in self._files for facts in plan.upload)
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
        if path not in self._files:
            return None
        entry, _ = self._files[path]
        return IndexedFile(self._facts(path), entry.content_type, entry.metadata)

    def record(self, relative: str, entry: ObjectEntry, md5: str, stamp: FileStamp) -> None:
        """Remember one file that has just been written and closed."""
        self._files[relative] = entry, md5
        self._stamps[relative] = stamp
        self._newest_ctime_ns = max(self._newest_ctime_ns, stamp[2])

    def is_untouched(self, file: ScannedFile) -> bool:
        """Whether a file has the stamp it was recorded with, and the stamp can be trusted.

        A write in the very clock tick of the last recorded file could leave its stamp as it
        was; such files are never trusted.
        """
        return self._stamps.get(file.path) == file.stamp and file.ctime_ns < self._newest_ctime_ns

    def survey(self) -> "Survey":
        """Walk the directory and part its files into untouched ones and suspects."""
        untouched: dict[str, FileFacts] = {}
        suspects: list[ScannedFile] = []
        for file in scan(self._directory):
            if self.is_untouched(file):
                untouched[file.path] = self._facts(file.path)
            else:
                suspects.append(file)
        return Survey(untouched, suspects)

    def _facts(self, path: str) -> FileFacts:
        """Made when asked for: most workspaces are only read."""
        return FileFacts(path, self._files[path][1], self._stamps[path][0])


@dataclass(frozen=True, slots=True)
class Survey:
    """One walk: what is known without reading, and what has to be hashed."""

    untouched: dict[str, FileFacts]
    suspects: list[ScannedFile]
