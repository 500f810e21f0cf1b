"""The jobs between the two ways: the directory against the index, joined into a plan.

A file whose stamp is the recorded one was not written since; every other file is read where the
join found it. The plan is a table of lines in order of path, and the driver keeps its totals.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from perago.adapters.spark.down_jobs import Index
from perago.adapters.spark.manifest_rows import Line, ManifestRows, path_of
from perago.adapters.spark.part_work import OpenPartWork, ScanWork
from perago.adapters.spark.pipeline_session import ROWS_PER_PART, PipelineSession
from perago.adapters.spark.pipeline_state import PipelineState
from perago.adapters.spark.row_files import file_name, write_rows
from perago.adapters.spark.row_frames import COLUMNS, frame_of, table
from perago.adapters.spark.row_problems import gathered, told, unpacked
from perago.domain.batches import batched
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.domain.workspace_rows import (
    Folder,
    FoundFile,
    PlacedFile,
    PlanKind,
    PlannedChange,
    ReadFile,
)
from perago.ports.workspace_pipeline import Materialised

CHANGES_AT_ONCE = 20_000
_STAMPS = ("size", "mtime_ns", "ctime_ns", "inode")


class FoundChanges(NamedTuple):
    """How many changes one part found; `new` may have a source on the server."""

    changes: int = 0
    new: int = 0
    problem: str | None = None


def compare(session: PipelineSession, index: Index, directory: Path, folders: list[Folder]) -> Any:  # noqa: ANN401 - a frame
    """What is not as it was recorded: rows of suspects, and of files that are gone."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    rows = session.spread(folders, partial(_look, session.open_work, directory))
    found = frame_of(session.session, rows, FoundFile).alias("found")
    base = table(session.session, index.place, PlacedFile).alias("base")
    untouched = F.lit(True)  # noqa: FBT003 - a column of it
    for stamp in _STAMPS:
        untouched &= F.col(f"found.{stamp}") == F.col(f"base.{stamp}")
    untouched &= F.col("found.ctime_ns") < F.lit(index.newest_ctime_ns)
    session.join_in_parts(index.objects, at_least=session.parts)
    joined = found.join(base, F.col("found.path") == F.col("base.path"), "full_outer")
    return joined.where(~F.coalesce(untouched, F.lit(False))).select(  # noqa: FBT003 - as above
        F.coalesce("found.path", "base.path").alias("path"),
        F.col("found.path").isNull().alias("is_gone"),
        F.col("base.md5").alias("base_md5"),
        F.col("base.size").alias("base_size"),
        F.col("base.content_type"),
        F.col("base.metadata"),
        F.col("found.problem"),
    )


def write_plan(
    session: PipelineSession,
    materialised: Materialised,
    index: Index,
    compared: Any,  # noqa: ANN401 - a frame
    state: PipelineState,
) -> SyncPlan:
    """Read the suspects and write down what has to move."""
    from pyspark.sql import Observation  # noqa: PLC0415 - half a second
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    state.empty(state.changes)
    where = materialised.directory, materialised.source.prefix, state.changes
    rows = compared.rdd.mapPartitionsWithIndex(partial(_read, session.open_work, *where))
    found = gathered(rows, FoundChanges)
    count = sum(part.changes for part in found)
    if not count:
        return SyncPlan()
    changes = table(session.session, state.changes, PlannedChange)
    if any(part.new for part in found):
        changes = _with_sources(table(session.session, index.place, PlacedFile), changes)
    seen = Observation()
    counts = (F.count_if(F.col("kind") == kind.value).alias(kind.value) for kind in PlanKind)
    counted = _in_order(changes, count).observe(seen, *counts)
    counted.write.mode("overwrite").json(state.plan.as_uri())
    return _plan(state.plan, seen.get)


def planned_frame(session: PipelineSession, place: Path | None) -> Any:  # noqa: ANN401 - a frame
    """The lines of a plan as a frame; an empty plan has none."""
    if place is None:
        return session.session.createDataFrame([], COLUMNS[PlannedChange])
    return session.session.read.schema(COLUMNS[PlannedChange]).json(place.as_uri())


def _with_sources(index: Any, changes: Any) -> Any:  # noqa: ANN401 - frames
    """A new file whose bytes stand in the index is copied on the server."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

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


def _in_order(changes: Any, count: int) -> Any:  # noqa: ANN401 - frames
    """By path; few changes in one part, for cutting them into ranges costs a job."""
    if count <= ROWS_PER_PART:
        return changes.coalesce(1).sortWithinPartitions("path")
    return changes.orderBy("path")


def _plan(place: Path, counts: Mapping[str, int]) -> SyncPlan:
    return SyncPlan(
        upload=ManifestRows(place, counts[PlanKind.UPLOAD], _facts, PlanKind.UPLOAD),
        copy=ManifestRows(place, counts[PlanKind.COPY], _copy, PlanKind.COPY),
        delete=ManifestRows(place, counts[PlanKind.DELETE], path_of, PlanKind.DELETE),
    )


def _facts(line: Line) -> FileFacts:
    return FileFacts(path_of(line), cast("str", line["md5"]), cast("int", line["size"]))


def _copy(line: Line) -> tuple[FileFacts, str]:
    return _facts(line), cast("str", line["source"])


def _look(open_work: OpenPartWork, directory: Path, folder: Folder) -> Iterator[FoundFile]:
    rows = open_work().scan.look(directory, folder)
    return told(rows, lambda problem: FoundFile("", problem=problem))


def _read(
    open_work: OpenPartWork,
    directory: Path,
    prefix: str,
    place: Path,
    number: int,
    rows: Iterable[Any],
) -> Iterator[FoundChanges]:
    changes = _changes(open_work().scan, directory, prefix, rows)

    def keep() -> Iterator[FoundChanges]:
        for count, portion in enumerate(batched(changes, CHANGES_AT_ONCE)):
            write_rows(place, file_name(number, count), portion)
            yield FoundChanges(len(portion), sum(row.is_new for row in portion))

    return told(keep(), lambda problem: FoundChanges(problem=problem))


def _changes(
    scan: ScanWork, directory: Path, prefix: str, rows: Iterable[Any]
) -> Iterator[PlannedChange]:
    for row in rows:
        if row.problem is not None:
            raise unpacked(row.problem)
        if row.is_gone:
            yield PlannedChange(PlanKind.DELETE, row.path)
            continue
        suspect = ReadFile(
            row.path,
            base_md5=row.base_md5,
            base_size=row.base_size,
            content_type=row.content_type,
            metadata=row.metadata,
        )
        for read in scan.read(directory, prefix, (suspect,)):
            if (read.md5, read.size) != (read.base_md5, read.base_size):
                yield PlannedChange(
                    PlanKind.UPLOAD,
                    read.path,
                    read.md5,
                    read.size,
                    content_type=read.content_type,
                    metadata=read.metadata,
                    is_new=read.base_md5 is None,
                )
