"""The files of a plan: rows in order of path, each file after the one before it.

Executors write and read them. The driver keeps how much of each kind a file holds and where it
ends, so that work is dealt out without a look at the rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

from perago.adapters.spark.manifest_rows import Line, ManifestRows, path_of
from perago.adapters.spark.row_files import file_name, read_rows, write_rows
from perago.domain.key_ranges import KeyRange
from perago.domain.prefix_projection import object_path
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.domain.workspace_rows import PlanKind, PlannedChange


class PlanPart(NamedTuple):
    """One file of a plan."""

    name: str
    uploads: int
    copies: int
    deletes: int
    last: str

    @property
    def writes(self) -> int:
        """How many objects it makes."""
        return self.uploads + self.copies


class PlanShare(NamedTuple):
    """Some neighbours in one file: either deletions or what is written."""

    name: str
    are_deletes: bool
    start: int
    amount: int


class PlanRange(NamedTuple):
    """A range of keys that one file is about; a plan without a file is about all of them."""

    name: str | None
    keys: KeyRange


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """A plan and the files it stands in."""

    plan: SyncPlan
    parts: tuple[PlanPart, ...] = ()

    def shares(self, *, writes_max: int, deletes_max: int) -> list[PlanShare]:
        """All of it in shares of at most so many rows."""
        return [
            *self._shares(are_deletes=False, amount=writes_max),
            *self._shares(are_deletes=True, amount=deletes_max),
        ]

    def ranges(self, prefix: str) -> list[PlanRange]:
        """All keys of a branch, by the file that says what becomes of them."""
        cuts = [object_path(prefix, part.last) for part in self.parts[:-1]]
        names: list[str | None] = [part.name for part in self.parts]
        ends = zip(["", *cuts], [*cuts, None], strict=True)
        return [
            PlanRange(name, KeyRange(*keys))
            for name, keys in zip(names or [None], ends, strict=True)
        ]

    def _shares(self, *, are_deletes: bool, amount: int) -> Iterator[PlanShare]:
        for part in self.parts:
            for start in range(0, part.deletes if are_deletes else part.writes, amount):
                yield PlanShare(part.name, are_deletes, start, amount)


def written_plan(place: Path, parts: Iterable[PlanPart]) -> WrittenPlan:
    """A plan of the files that were written, in order."""
    ordered = tuple(sorted(parts))
    plan = SyncPlan(
        upload=ManifestRows(place, sum(part.uploads for part in ordered), _facts, PlanKind.UPLOAD),
        copy=ManifestRows(place, sum(part.copies for part in ordered), _copy, PlanKind.COPY),
        delete=ManifestRows(place, sum(part.deletes for part in ordered), path_of, PlanKind.DELETE),
    )
    return WrittenPlan(plan, ordered)


def write_part(place: Path, number: int, rows: Iterable[PlannedChange]) -> Iterator[PlanPart]:
    """Write one file, unless there is nothing for it; the rows are in order of path."""
    kept = list(rows)
    if kept:
        write_rows(place, file_name(number), kept)
        count = Counter(row.kind for row in kept)
        yield PlanPart(
            file_name(number),
            count[PlanKind.UPLOAD],
            count[PlanKind.COPY],
            count[PlanKind.DELETE],
            kept[-1].path,
        )


def rows_of(place: Path, name: str) -> Iterator[PlannedChange]:
    """The changes of one file."""
    return (PlannedChange(**line) for line in read_rows(place, name))


def rows_of_share(place: Path, share: PlanShare) -> Iterator[PlannedChange]:
    """The changes of one share."""
    rows = (
        row
        for row in rows_of(place, share.name)
        if (row.kind == PlanKind.DELETE) is share.are_deletes
    )
    return islice(rows, share.start, share.start + share.amount)


def _facts(line: Line) -> FileFacts:
    return FileFacts(path_of(line), cast("str", line["md5"]), cast("int", line["size"]))


def _copy(line: Line) -> tuple[FileFacts, str]:
    return _facts(line), cast("str", line["source"])
