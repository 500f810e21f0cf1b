"""A commit of any size that nobody stored, for the growth curve of the driver.

Stands at the port: what executors would ask lakeFS and the disk for is made up from a number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast, final, overload

from perago.adapters.spark.parts import PartWork
from perago.domain.key_ranges import KeyRange
from perago.domain.sync_plan import ListedObject, PlacedFile, PlannedChange
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, Page
from perago.ports.system import Concurrency
from perago.ports.workspace import StagingArea, TransferCounts, WorkspaceSource

FOLDER = 1000


def key(number: int) -> str:
    """The object of a number; in order of path."""
    return f"data/d{number // FOLDER:05}/f{number:08}"


@dataclass(frozen=True)
class Keys(Sequence[str]):
    """All of them, none kept."""

    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [key(number) for number in range(*at.indices(self.size))]
        return key(at)

    def after(self, text: str) -> int:
        """The number of the first key after a text."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            if key(middle) > text:
                high = middle
            else:
                low = middle + 1
        return low


class SyntheticObjects:
    """Lists, and nothing else."""

    def __init__(self, count: int) -> None:
        self._keys = Keys(count)

    async def list_page(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> Page[ObjectEntry]:
        """One page, made up."""
        del repository, ref, prefix
        start = self._keys.after(after)
        entries = [
            ObjectEntry(path, f"{4096:032x}", 4096) for path in self._keys[start : start + amount]
        ]
        more = start + amount < len(self._keys)
        return Page(tuple(entries), more, entries[-1].path if entries else "")


def _no_transport(_concurrency: object) -> None:
    """Objects arrive without moving."""


@final
class SyntheticWork:
    """Lists as the pipeline does, and shows again what was deleted."""

    def __init__(self, count: int) -> None:
        self._keys = Keys(count)
        objects = SyntheticObjects(count)
        lakefs = SimpleNamespace(objects=objects, commits=None, transport=_no_transport)
        work = PartWork(cast("LakeFSInstallation", lakefs), cast("Concurrency", None))
        self.list_range = work.list_range

    def fetch(
        self, source: WorkspaceSource, directory: Path, landing: Path, rows: Iterable[ListedObject]
    ) -> Iterator[PlacedFile]:
        """Every object as it would stand on the disk."""
        del source, directory, landing
        for row in rows:
            yield PlacedFile(row.path, row.size, 1, 2, 3, row.checksum, row.content_type, {})

    def write(
        self, directory: Path, area: StagingArea, changes: Iterable[PlannedChange]
    ) -> Iterator[TransferCounts]:
        """Count them."""
        del directory, area
        yield TransferCounts(requests=sum(1 for _ in changes))

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[Change]:
        """Everything was removed."""
        del area
        for number in range(self._keys.after(part.after), len(self._keys)):
            if not part.holds(key(number)):
                return
            yield Change(key(number), ChangeKind.REMOVED)

    def check(self, area: StagingArea, rows: Iterable[PlannedChange]) -> None:
        """Nothing was written."""


def open_synthetic(count: int) -> PartWork:
    """The work of an executor on so many objects."""
    return cast("PartWork", SyntheticWork(count))
