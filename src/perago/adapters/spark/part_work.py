"""What the Spark pipeline has its executors do, and how an executor gets hold of it.

Spark knows frames and partitions; objects, files and lakeFS are known to the work, which the
composition root gives. `open` travels to the executors with its jobs, never into an option.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from perago.domain.key_ranges import KeyRange
from perago.domain.prefix_projection import NameRules
from perago.domain.workspace_rows import (
    Folder,
    FoundFile,
    ListedObject,
    PlacedFile,
    PlannedChange,
    ReadFile,
    SeenChange,
    WrittenBatch,
)
from perago.ports.workspace_pipeline import StagingArea, WorkspaceSource


class DownWork(Protocol):
    """From a commit to files."""

    def list_range(
        self, source: WorkspaceSource, rules: NameRules | None, part: KeyRange
    ) -> Iterator[ListedObject]:
        """The business objects of one range of keys; with rules, names are checked by them."""
        ...

    def refuse_clash(self, source: WorkspaceSource, one: str, other: str) -> NoReturn:
        """Raise for two names that one directory cannot hold."""
        ...

    def fetch(
        self,
        source: WorkspaceSource,
        directory: Path,
        landing: Path,
        rows: Iterable[ListedObject],
    ) -> Iterator[PlacedFile]:
        """Bring objects to their files, by way of a landing place on the same disk."""
        ...


class ScanWork(Protocol):
    """What stands on the disk."""

    def rules(self, directory: Path) -> NameRules:
        """What the disk of a directory can tell apart and hold."""
        ...

    def identity(self, directory: Path) -> tuple[int, int]:
        """By what a directory is known again; raises when there is none."""
        ...

    def refuse_another(self, directory: Path, identity: tuple[int, int]) -> None:
        """Raise unless a directory is still the one with this identity."""
        ...

    def folders(self, directory: Path, wanted: int) -> list[Folder]:
        """Cut a directory into folders that are looked through apart."""
        ...

    def look(self, directory: Path, folder: Folder) -> Iterator[FoundFile]:
        """Every file of a folder with its stamp."""
        ...

    def read(self, directory: Path, prefix: str, rows: Iterable[ReadFile]) -> Iterator[ReadFile]:
        """Hash suspects; a name that may not be staged is refused."""
        ...


class UpWork(Protocol):
    """From files to a staging branch."""

    def write(
        self, directory: Path, area: StagingArea, changes: Iterable[PlannedChange]
    ) -> Iterator[WrittenBatch]:
        """Bring changes onto the staging branch; doing it again changes nothing."""
        ...

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[SeenChange]:
        """The uncommitted paths of one range."""
        ...

    def check(self, area: StagingArea, rows: Iterable[PlannedChange]) -> None:
        """Raise for the first object that is not as written; the rows are in order of path."""
        ...

    def refuse_difference(
        self, area: StagingArea, path: str, expected: str | None, found: str | None
    ) -> NoReturn:
        """Raise for a path that did not become what was planned."""
        ...


@dataclass(frozen=True, slots=True)
class PartWork:
    """All of it, on one lakeFS."""

    down: DownWork
    scan: ScanWork
    up: UpWork


OpenPartWork = Callable[[], PartWork]
"""Gives the work of this process, the same one every time; it must survive pickling."""
