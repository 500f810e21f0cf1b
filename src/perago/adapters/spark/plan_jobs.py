"""The jobs between the two ways: the directory against the index, joined into a plan.

A file whose stamp is the recorded one was not written since; every other file is read. The plan
is a table of lines in order of path, and the driver keeps its totals.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from perago.adapters.spark.manifest_rows import Line, ManifestRows, path_of
from perago.adapters.spark.part_work import OpenPartWork
from perago.adapters.spark.pipeline_session import ROWS_PER_PART, PipelineSession, spread_rows
from perago.adapters.spark.pipeline_state import PipelineState
from perago.adapters.spark.row_frames import COLUMNS, Kept, frame_of, keep
from perago.adapters.spark.row_problems import told, unpacked
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.domain.workspace_rows import Folder, FoundFile, PlanKind, PlannedChange, ReadFile
from perago.ports.workspace_pipeline import Materialised

_STAMPS = ("size", "mtime_ns", "ctime_ns", "inode")


def compare(
    session: PipelineSession,
    index: Kept,
    directory: Path,
    folders: list[Folder],
) -> Any:  # noqa: ANN401 - a frame
    """What is not as it was recorded: rows of suspects, and of files that are gone."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    rows = session.spread(folders, partial(_look, session.open_work, directory))
    found = frame_of(session.session, rows, FoundFile).alias("found")
    base = index.frame.alias("base")
    untouched = F.lit(True)  # noqa: FBT003 - a column of it
    for stamp in _STAMPS:
        untouched &= F.col(f"found.{stamp}") == F.col(f"base.{stamp}")
    untouched &= F.col("found.ctime_ns") < F.lit(index.newest_ctime_ns)
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
    index: Kept,
    compared: Any,  # noqa: ANN401 - a frame
    state: PipelineState,
) -> SyncPlan:
    """Read the suspects and write down what has to move."""
    from pyspark.sql import Observation  # noqa: PLC0415 - half a second
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    compared.persist()
    try:
        totals = compared.agg(
            F.count_if("is_gone").alias("gone"),
            F.count_if(~F.col("is_gone")).alias("suspects"),
            F.min("problem").alias("problem"),
        ).collect()[0]
        if totals["problem"] is not None:
            raise unpacked(totals["problem"])
        if not totals["gone"] and not totals["suspects"]:
            return SyncPlan()
        changes = _gone(compared)
        if totals["suspects"]:
            suspects = compared.where("NOT is_gone").select(
                "path", "base_md5", "base_size", "content_type", "metadata"
            )
            place = materialised.directory, materialised.source.prefix
            rows = spread_rows(suspects, session.parts_for(totals["suspects"])).rdd.mapPartitions(
                partial(_read, session.open_work, *place)
            )
            read = keep(session.session, rows, ReadFile, state.suspects)
            changes = changes.union(_written(index.frame, read.frame))
        ordered = _in_order(changes, totals["gone"] + totals["suspects"])
        seen = Observation()
        counts = (F.count_if(F.col("kind") == kind.value).alias(kind.value) for kind in PlanKind)
        counted = ordered.observe(seen, *counts)
        counted.write.mode("overwrite").json(state.plan.as_uri())
    finally:
        compared.unpersist()
    return _plan(state.plan, seen.get)


def planned_frame(session: PipelineSession, place: Path | None) -> Any:  # noqa: ANN401 - a frame
    """The lines of a plan as a frame; an empty plan has none."""
    if place is None:
        return session.session.createDataFrame([], COLUMNS[PlannedChange])
    return session.session.read.schema(COLUMNS[PlannedChange]).json(place.as_uri())


def _gone(compared: Any) -> Any:  # noqa: ANN401 - frames
    return compared.where("is_gone").selectExpr(
        f"'{PlanKind.DELETE}' AS kind",
        "path",
        "CAST(NULL AS string) AS md5",
        "CAST(NULL AS long) AS size",
        "CAST(NULL AS string) AS source",
        "CAST(NULL AS string) AS content_type",
        "CAST(NULL AS map<string,string>) AS metadata",
        "false AS is_new",
    )


def _written(index: Any, read: Any) -> Any:  # noqa: ANN401 - frames
    """Uploads and copies: a new file whose bytes stand in the index is copied on the server."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    changed = read.where("NOT (md5 <=> base_md5 AND size <=> base_size)")
    wanted = changed.where("base_md5 IS NULL AND size > 0").select("md5", "size")
    sources = (
        index.select("md5", "size", "path")
        .join(wanted, ["md5", "size"], "left_semi")
        .groupBy("md5", "size")
        .agg(F.min("path").alias("source"))
    )
    is_new = F.col("base_md5").isNull()
    source = F.when(is_new & (F.col("size") > 0), F.col("source"))
    joined = changed.join(sources, ["md5", "size"], "left").withColumn("source", source)
    kind = F.when(F.col("source").isNull(), PlanKind.UPLOAD.value).otherwise(PlanKind.COPY.value)
    return joined.select(
        kind.alias("kind"),
        "path",
        "md5",
        "size",
        "source",
        "content_type",
        "metadata",
        is_new.alias("is_new"),
    )


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
    open_work: OpenPartWork, directory: Path, prefix: str, rows: Iterable[Any]
) -> Iterator[ReadFile]:
    suspects = (
        ReadFile(
            row.path,
            base_md5=row.base_md5,
            base_size=row.base_size,
            content_type=row.content_type,
            metadata=row.metadata,
        )
        for row in rows
    )
    read = open_work().scan.read(directory, prefix, suspects)
    return told(read, lambda problem: ReadFile("", problem=problem))
