"""The plan of a large workspace: how it is found by comparing, and the files it is kept in.

`compare` and `write_plan` are the jobs. A plan is rows in order of path, in files that follow each
other; executors write and read them. The driver keeps how much of each kind a file holds and where
it ends, so that it deals out work without reading rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

from perago.adapters.spark.down_jobs import Index
from perago.adapters.spark.parts import OpenPartWork, PartScan
from perago.adapters.spark.pipeline_session import PipelineSession, PipelineState
from perago.adapters.spark.rows import (
    BOUNDS,
    Line,
    ManifestRows,
    ending_with_problem,
    file_name,
    gathered,
    line_of,
    lines,
    lines_of,
    path_of,
    read_rows,
    row_of,
    table,
    unpacked,
    write_rows,
)
from perago.domain.key_ranges import KeyRange
from perago.domain.paths import object_path
from perago.domain.sync_plan import (
    FileFacts,
    Folder,
    FoundFile,
    PlacedFile,
    PlanKind,
    PlannedChange,
    ReadFile,
    SyncPlan,
    batched,
)
from perago.ports.workspace import Materialised


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


def written_plan(folder: Path, parts: Iterable[PlanPart]) -> WrittenPlan:
    """A plan of the files that were written, in order."""
    ordered = tuple(sorted(parts))
    plan = SyncPlan(
        upload=ManifestRows(folder, sum(part.uploads for part in ordered), _facts, PlanKind.UPLOAD),
        copy=ManifestRows(folder, sum(part.copies for part in ordered), _copy, PlanKind.COPY),
        delete=ManifestRows(
            folder, sum(part.deletes for part in ordered), path_of, PlanKind.DELETE
        ),
    )
    return WrittenPlan(plan, ordered)


def write_part(folder: Path, number: int, rows: Iterable[PlannedChange]) -> Iterator[PlanPart]:
    """Write one file, unless there is nothing for it; the rows are in order of path."""
    kept = list(rows)
    if kept:
        write_rows(folder, file_name(number), kept)
        count = Counter(row.kind for row in kept)
        yield PlanPart(
            file_name(number),
            count[PlanKind.UPLOAD],
            count[PlanKind.COPY],
            count[PlanKind.DELETE],
            kept[-1].path,
        )


def rows_of(folder: Path, name: str) -> Iterator[PlannedChange]:
    """The changes of one file."""
    return (PlannedChange(**line) for line in read_rows(folder, name))


def rows_of_share(folder: Path, share: PlanShare) -> Iterator[PlannedChange]:
    """The changes of one share."""
    rows = (
        row
        for row in rows_of(folder, share.name)
        if (row.kind == PlanKind.DELETE) is share.are_deletes
    )
    return islice(rows, share.start, share.start + share.amount)


def _facts(line: Line) -> FileFacts:
    return FileFacts(path_of(line), cast("str", line["md5"]), cast("int", line["size"]))


def _copy(line: Line) -> tuple[FileFacts, str]:
    return _facts(line), cast("str", line["source"])


# Rows of one file of changes: they are in memory until it is written. As many as a part of files
# (ROWS_PER_PART in `pipeline_session`), so that one bound holds for the memory of an executor.
CHANGES_AT_ONCE = 20_000
# Up to here the driver sorts the changes itself. A job for them takes longer than the rest of the
# plan; above, sorting would hold the driver's memory and its one core.
FEW_CHANGES = 2_000
STAMPED = len(FoundFile._fields[:-1])  # how many fields the rows of a file begin with, both of them
_NEVER = -1  # a ctime that no file has, see `_look`


class FoundChanges(NamedTuple):
    """One file of changes, in no order; `new` of them may have a source on the server."""

    name: str = ""
    changes: int = 0
    new: int = 0
    problem: str | None = None


def compare(session: PipelineSession, index: Index, directory: Path, folders: list[Folder]) -> Any:  # noqa: ANN401 - a frame
    """What is not as it was recorded: lines of suspects, and of files that are gone.

    The lines of both tables begin alike as long as a file was not touched: they are compared as
    they stand, for of most files nothing else is ever asked.
    """
    parts = session.parts_to_compare(index.objects)
    look = partial(_look, session.open_work, directory, index.newest_ctime_ns)
    found = lines_of(session.session, session.spread(folders, look, parts))
    base = lines(session.session, index.folder)
    sides = [
        frame.selectExpr(
            f"substring_index(value, '\\t', {BOUNDS}) AS path",
            f"substring_index(value, '\\t', {BOUNDS * STAMPED}) AS {name}_stamped",
            f"value AS {name}",
        )
        for frame, name in ((found, "found"), (base, "base"))
    ]
    session.join_in_parts(parts)
    joined = sides[0].join(sides[1], "path", "full_outer")
    return joined.where("NOT (found_stamped <=> base_stamped)").select("found", "base")


def write_plan(
    session: PipelineSession,
    materialised: Materialised,
    index: Index,
    compared: Any,  # noqa: ANN401 - a frame
    state: PipelineState,
) -> WrittenPlan:
    """Read the suspects and write down what has to move.

    New files take a job, however few they are: their bytes may stand in the index, which the
    driver does not read.
    """
    state.empty(state.changes)
    where = materialised.directory, materialised.source.prefix, state.changes
    rows = compared.rdd.mapPartitionsWithIndex(partial(_read, session.open_work, *where))
    found = gathered(rows, FoundChanges)
    if not found:
        return WrittenPlan(SyncPlan())
    state.empty(state.plan)
    count = sum(part.changes for part in found)
    if count <= FEW_CHANGES and not any(part.new for part in found):
        parts = list(_in_order(state, [part.name for part in found]))
    else:
        changes = table(session.session, state.changes, PlannedChange)
        if any(part.new for part in found):
            changes = _with_sources(table(session.session, index.folder, PlacedFile), changes)
        ordered = _by_path(changes, session.parts_for(count)).rdd
        parts = ordered.mapPartitionsWithIndex(partial(_write, state.plan)).collect()
    return written_plan(state.plan, parts)


def _with_sources(index: Any, changes: Any) -> Any:  # noqa: ANN401 - frames
    """A new file whose bytes stand in the index is copied on the server."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - its usual name

    is_wanted = F.col("is_new") & (F.col("size") > 0)
    sources = (
        index.select("md5", "size", "path")
        .join(changes.where(is_wanted).select("md5", "size"), ["md5", "size"], "left_semi")
        .groupBy("md5", "size")
        .agg(F.min("path").alias("found"))
    )
    source = F.when(is_wanted, F.col("found"))
    kind = F.when(source.isNotNull(), PlanKind.COPY.value).otherwise(F.col("kind"))
    joined = changes.join(sources, ["md5", "size"], "left")
    return joined.withColumns({"kind": kind, "source": source}).select(*PlannedChange._fields)


def _by_path(changes: Any, parts: int) -> Any:  # noqa: ANN401 - frames
    """In order; few changes in one part, for cutting them into ranges costs a job."""
    ranged = changes.coalesce(1) if parts == 1 else changes.repartitionByRange(parts, "path")
    return ranged.sortWithinPartitions("path")


def _write(folder: Path, number: int, rows: Iterable[Any]) -> Iterator[PlanPart]:
    return write_part(folder, number, (PlannedChange(*row) for row in rows))


def _in_order(state: PipelineState, names: list[str]) -> Iterator[PlanPart]:
    """Few changes by this process: a job for them takes longer than the rest of the plan."""
    rows = chain.from_iterable(rows_of(state.changes, name) for name in names)
    return write_part(state.plan, 0, sorted(rows, key=attrgetter("path")))


def _look(
    open_work: OpenPartWork, directory: Path, newest_ctime_ns: int, folder: Folder
) -> Iterator[tuple[str]]:
    """What stands in a folder.

    A write in the same clock tick as the newest recorded file leaves the stamp as it was. So a file
    of this tick gets a stamp that no file has, and is read.
    """
    rows = (
        row._replace(ctime_ns=_NEVER) if row.ctime_ns == newest_ctime_ns else row
        for row in open_work().scan.look(directory, folder)
    )
    for row in ending_with_problem(rows, lambda problem: FoundFile("", problem=problem)):
        yield (line_of(row),)


def _read(
    open_work: OpenPartWork,
    directory: Path,
    prefix: str,
    folder: Path,
    number: int,
    rows: Iterable[Any],
) -> Iterator[FoundChanges]:
    changes = _changes(open_work().scan, directory, prefix, rows)

    def keep() -> Iterator[FoundChanges]:
        for count, portion in enumerate(batched(changes, CHANGES_AT_ONCE)):
            name = file_name(number, count)
            write_rows(folder, name, portion)
            new = sum(row.is_new and bool(row.size) for row in portion)
            yield FoundChanges(name, len(portion), new)

    return ending_with_problem(keep(), lambda problem: FoundChanges(problem=problem))


def _changes(
    scan: PartScan, directory: Path, prefix: str, rows: Iterable[Any]
) -> Iterator[PlannedChange]:
    for found, base in rows:
        file = None if found is None else FoundFile(**row_of(found))
        placed = None if base is None else PlacedFile(**row_of(base))
        if file is None:
            assert placed is not None, "one side of a join"
            yield PlannedChange(PlanKind.DELETE, placed.path)
            continue
        if file.problem is not None:
            raise unpacked(file.problem)
        (read,) = scan.read(directory, prefix, (_suspect(file.path, placed),))
        if (read.md5, read.size) != (read.base_md5, read.base_size):
            yield PlannedChange(
                PlanKind.UPLOAD,
                read.path,
                read.md5,
                read.size,
                content_type=read.content_type,
                metadata=read.metadata,
                is_new=placed is None,
            )


def _suspect(path: str, placed: PlacedFile | None) -> ReadFile:
    if placed is None:
        return ReadFile(path)
    return ReadFile(
        path,
        base_md5=placed.md5,
        base_size=placed.size,
        content_type=placed.content_type,
        metadata=placed.metadata,
    )
