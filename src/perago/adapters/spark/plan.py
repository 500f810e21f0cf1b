"""The plan of a large workspace: found, kept in files, brought onto a branch and checked there.

`compare` and `write_plan` find what has to move. A plan is rows in order of path, in files that
follow each other; executors write and read them. The driver keeps how much of each kind a file
holds and where it ends, so that it deals out work without reading rows. `write_changes` brings the
plan onto the staging branch, `check_branch` compares the branch with it. The uncommitted changes of
a branch are in order of path, too, so that one walk through the two compares a range.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

from perago.adapters.spark.parts import OpenPartWork, PartWork, content_of, files_of
from perago.adapters.spark.pipeline_session import PipelineSession, PipelineState
from perago.adapters.spark.rows import (
    BOUNDS,
    Line,
    ManifestRows,
    ending_with_problem,
    file_name,
    gathered,
    line_of,
    path_of,
    read_rows,
    row_of,
    table,
    unpacked,
    with_problem,
    write_rows,
)
from perago.adapters.workspace.staging import difference
from perago.domain import sync_plan
from perago.domain.key_ranges import KeyRange
from perago.domain.paths import object_path
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import DELETE_PATHS_MAX
from perago.ports.workspace import Materialised, StagingArea, TransferCounts

# Rows of one file of changes: they are in memory until it is written. As many as a part of files
# (ROWS_PER_PART in `pipeline_session`), so that one bound holds for the memory of an executor.
CHANGES_AT_ONCE = 20_000
# Up to here the driver sorts the changes itself. A job for them takes longer than the rest of the
# plan; above, sorting would hold the driver's memory and its one core.
FEW_CHANGES = 2_000
# How many fields the rows of a file begin with, both of them.
STAMPED = len(sync_plan.FoundFile._fields[:-1])
_NEVER = -1  # a ctime that no file has, see `_look`
# Comparing moves no bytes, so a part may have more rows. Fewer parts make the join less wide.
ROWS_PER_COMPARED_PART = 250_000
# Rows in memory at a time, as in a part of files (ROWS_PER_PART in `pipeline_session`). The threads
# share them: with few, most threads would wait for the last answer of each batch.
CHECKED_AT_ONCE = 20_000
# The time of a check is the way to the server and not work of this process. One more thread walks
# the branch meanwhile. More than 8 would be much for lakeFS, because parts run side by side: a job
# with 16 slots sends it 128 requests at once. Other numbers were not measured.
CHECKING_THREADS = 8


@dataclass(frozen=True, slots=True)
class Index:
    """What was materialised: where its table stands, and how much it is."""

    folder: Path
    objects: int
    bytes: int
    newest_ctime_ns: int


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

    plan: sync_plan.SyncPlan
    parts: tuple[PlanPart, ...] = ()

    def shares(self, *, writes_max: int, deletes_max: int) -> list[PlanShare]:
        """All of it in shares of at most so many rows."""
        return [
            PlanShare(part.name, are_deletes, start, amount)
            for are_deletes, amount in ((False, writes_max), (True, deletes_max))
            for part in self.parts
            for start in range(0, part.deletes if are_deletes else part.writes, amount)
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


class FoundChanges(NamedTuple):
    """One file of changes, in no order; `new` of them may have a source on the server."""

    name: str
    changes: int
    new: int


def compare(
    session: PipelineSession, index: Index, directory: Path, folders: list[sync_plan.Folder]
) -> Any:  # noqa: ANN401 - a frame
    """What is not as it was recorded: lines of suspects, and of files that are gone.

    The lines of both tables begin alike as long as a file was not touched: they are compared as
    they stand, for of most files nothing else is ever asked.
    """
    parts = max(session.cores, index.objects // ROWS_PER_COMPARED_PART)
    look = partial(_look, directory, index.newest_ctime_ns)
    looked = session.lazily(folders, look, parts)
    found = session.session.createDataFrame(looked, "value string", verifySchema=False)
    base = session.session.read.text(index.folder.as_uri())
    sides = [
        frame.selectExpr(
            f"substring_index(value, '\\t', {BOUNDS}) AS path",
            f"substring_index(value, '\\t', {BOUNDS * STAMPED}) AS {name}_stamped",
            f"value AS {name}",
        )
        for frame, name in ((found, "found"), (base, "base"))
    ]
    session.session.conf.set("spark.sql.shuffle.partitions", str(parts))
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
    rows = compared.rdd.mapPartitionsWithIndex(partial(with_problem, _read, *where))
    found = gathered(rows, FoundChanges)
    if not found:
        return WrittenPlan(sync_plan.SyncPlan())
    state.empty(state.plan)
    count = sum(part.changes for part in found)
    if count <= FEW_CHANGES and not any(part.new for part in found):
        parts = list(_in_order(state, [part.name for part in found]))
    else:
        changes = table(session.session, state.changes, sync_plan.PlannedChange)
        if any(part.new for part in found):
            changes = _with_sources(
                table(session.session, index.folder, sync_plan.PlacedFile), changes
            )
        ordered = _by_path(changes, session.parts_for(count)).rdd
        parts = ordered.mapPartitionsWithIndex(partial(_write_ordered, state.plan)).collect()
    return written_plan(state.plan, parts)


def write_changes(
    session: PipelineSession,
    written: WrittenPlan,
    folder: Path,
    directory: Path,
    area: StagingArea,
) -> TransferCounts:
    """Upload, copy and delete on the executors; full pages of deletions."""
    writes = len(written.plan.upload) + len(written.plan.copy)
    pages = -(-len(written.plan.delete) // DELETE_PATHS_MAX)
    shares = written.shares(
        writes_max=max(1, -(-writes // session.parts_for(writes))),
        deletes_max=DELETE_PATHS_MAX * max(1, -(-pages // session.parts)),
    )
    work = partial(_write, session.open_work, folder, directory, area)
    return _sum(session.spread(shares, work, TransferCounts, len(shares)))


def check_branch(
    session: PipelineSession, written: WrittenPlan, folder: Path, area: StagingArea
) -> None:
    """Raise unless the branch differs from its start by exactly the plan."""
    ranges = written.ranges(area.prefix)
    work = partial(_check, session.open_work, folder, area)
    session.spread(ranges, work, Change, len(ranges))


def as_planned(
    work: PartWork, area: StagingArea, part: PlanRange, rows: Iterable[sync_plan.PlannedChange]
) -> Iterator[sync_plan.PlannedChange]:
    """The rows of a range; raises unless its uncommitted paths are exactly theirs."""
    changes = work.changes(area, part.keys)
    seen = next(changes, None)
    for row in rows:
        path, kind = object_path(area.prefix, row.path), _kind_of(row)
        if seen is not None and seen.path < path:
            break
        if seen is None or (seen.path, seen.kind) != (path, kind):
            found = seen.kind if seen is not None and seen.path == path else None
            raise difference(area, path, kind, found)
        yield row
        seen = next(changes, None)
    if seen is not None:
        raise difference(area, seen.path, None, seen.kind)


def written_plan(folder: Path, parts: Iterable[PlanPart]) -> WrittenPlan:
    """A plan of the files that were written, in order."""
    ordered = tuple(sorted(parts))
    plan = sync_plan.SyncPlan(
        upload=ManifestRows(
            folder, sum(part.uploads for part in ordered), _facts, sync_plan.PlanKind.UPLOAD
        ),
        copy=ManifestRows(
            folder, sum(part.copies for part in ordered), _copy, sync_plan.PlanKind.COPY
        ),
        delete=ManifestRows(
            folder, sum(part.deletes for part in ordered), path_of, sync_plan.PlanKind.DELETE
        ),
    )
    return WrittenPlan(plan, ordered)


def write_part(
    folder: Path, number: int, rows: Iterable[sync_plan.PlannedChange]
) -> Iterator[PlanPart]:
    """Write one file, unless there is nothing for it; the rows are in order of path."""
    kept = list(rows)
    if kept:
        write_rows(folder, file_name(number), kept)
        count = Counter(row.kind for row in kept)
        yield PlanPart(
            file_name(number),
            count[sync_plan.PlanKind.UPLOAD],
            count[sync_plan.PlanKind.COPY],
            count[sync_plan.PlanKind.DELETE],
            kept[-1].path,
        )


def rows_of(folder: Path, name: str) -> Iterator[sync_plan.PlannedChange]:
    """The changes of one file."""
    return (sync_plan.PlannedChange(**line) for line in read_rows(folder, name))


def rows_of_share(folder: Path, share: PlanShare) -> Iterator[sync_plan.PlannedChange]:
    """The changes of one share."""
    rows = (
        row
        for row in rows_of(folder, share.name)
        if (row.kind == sync_plan.PlanKind.DELETE) is share.are_deletes
    )
    return islice(rows, share.start, share.start + share.amount)


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
    kind = F.when(source.isNotNull(), sync_plan.PlanKind.COPY.value).otherwise(F.col("kind"))
    joined = changes.join(sources, ["md5", "size"], "left")
    return joined.withColumns({"kind": kind, "source": source}).select(
        *sync_plan.PlannedChange._fields
    )


def _by_path(changes: Any, parts: int) -> Any:  # noqa: ANN401 - frames
    """In order; few changes in one part, for cutting them into ranges costs a job."""
    ranged = changes.coalesce(1) if parts == 1 else changes.repartitionByRange(parts, "path")
    return ranged.sortWithinPartitions("path")


def _write_ordered(folder: Path, number: int, rows: Iterable[Any]) -> Iterator[PlanPart]:
    return write_part(folder, number, (sync_plan.PlannedChange(*row) for row in rows))


def _in_order(state: PipelineState, names: list[str]) -> Iterator[PlanPart]:
    """Few changes by this process: a job for them takes longer than the rest of the plan."""
    rows = chain.from_iterable(rows_of(state.changes, name) for name in names)
    return write_part(state.plan, 0, sorted(rows, key=attrgetter("path")))


def _look(directory: Path, newest_ctime_ns: int, folder: sync_plan.Folder) -> Iterator[tuple[str]]:
    """What stands in a folder.

    A write in the same clock tick as the newest recorded file leaves the stamp as it was. So a file
    of this tick gets a stamp that no file has, and is read.
    """
    rows = (
        row._replace(ctime_ns=_NEVER) if row.ctime_ns == newest_ctime_ns else row
        for row in files_of(directory, folder)
    )
    for row in ending_with_problem(rows, lambda problem: sync_plan.FoundFile("", problem=problem)):
        yield (line_of(row),)


def _read(
    directory: Path, prefix: str, folder: Path, number: int, rows: Iterable[Any]
) -> Iterator[FoundChanges]:
    changes = _changes(directory, prefix, rows)
    for count, portion in enumerate(sync_plan.batched(changes, CHANGES_AT_ONCE)):
        name = file_name(number, count)
        write_rows(folder, name, portion)
        yield FoundChanges(
            name, len(portion), sum(row.is_new and bool(row.size) for row in portion)
        )


def _changes(
    directory: Path, prefix: str, rows: Iterable[Any]
) -> Iterator[sync_plan.PlannedChange]:
    for found, base in rows:
        placed = None if base is None else sync_plan.PlacedFile(**row_of(base))
        if found is None:
            assert placed is not None, "one side of a join"
            yield sync_plan.PlannedChange(sync_plan.PlanKind.DELETE, placed.path)
            continue
        file = sync_plan.FoundFile(**row_of(found))
        if file.problem is not None:
            raise unpacked(file.problem)
        md5, size = content_of(directory, prefix, file.path)
        if placed is None:
            yield sync_plan.PlannedChange(
                sync_plan.PlanKind.UPLOAD, file.path, md5, size, is_new=True
            )
        elif (md5, size) != (placed.md5, placed.size):
            kept = placed.content_type, placed.metadata
            yield sync_plan.PlannedChange(
                sync_plan.PlanKind.UPLOAD, file.path, md5, size, None, *kept
            )


def _write(
    open_work: OpenPartWork, folder: Path, directory: Path, area: StagingArea, share: PlanShare
) -> Iterator[TransferCounts]:
    yield _sum(open_work().write(directory, area, rows_of_share(folder, share)))


def _sum(counts: Iterable[TransferCounts]) -> TransferCounts:
    every = [astuple(each) for each in counts]
    return TransferCounts(*map(sum, zip(*every, strict=True)))


def _check(
    open_work: OpenPartWork, folder: Path, area: StagingArea, part: PlanRange
) -> Iterator[Change]:
    """Some neighbours at a time in threads: what takes time is the way to the server."""

    def rows() -> Iterator[sync_plan.PlannedChange]:
        return iter(()) if part.name is None else rows_of(folder, part.name)

    work = open_work()
    written = (row for row in rows() if row.kind != sync_plan.PlanKind.DELETE)
    with ThreadPoolExecutor(CHECKING_THREADS + 1) as threads:
        walk = threads.submit(deque, as_planned(work, area, part, rows()), 0)
        for batch in sync_plan.batched(written, CHECKED_AT_ONCE):
            share = -(-len(batch) // CHECKING_THREADS)
            list(threads.map(partial(work.check, area), sync_plan.batched(batch, share)))
        walk.result()
    yield from ()


def _kind_of(row: sync_plan.PlannedChange) -> str:
    if row.kind == sync_plan.PlanKind.DELETE:
        return ChangeKind.REMOVED.value
    return ChangeKind.ADDED.value if row.is_new else ChangeKind.CHANGED.value


def _facts(line: Line) -> sync_plan.FileFacts:
    return sync_plan.FileFacts(path_of(line), cast("str", line["md5"]), cast("int", line["size"]))


def _copy(line: Line) -> tuple[sync_plan.FileFacts, str]:
    return _facts(line), cast("str", line["source"])
