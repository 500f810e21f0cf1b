"""The jobs on the way up: the plan onto the staging branch, and the branch against the plan.

Changes are written by the executors; counts come back. What is checked is found by a join, and
the driver sees the first difference only.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from perago.adapters.spark.part_work import OpenPartWork
from perago.adapters.spark.pipeline_session import PipelineSession, spread_rows
from perago.adapters.spark.row_frames import frame_of
from perago.adapters.spark.row_problems import gathered, told, unpacked
from perago.domain.batches import batched
from perago.domain.key_ranges import KeyRange
from perago.domain.prefix_projection import listing_prefix
from perago.domain.sync_plan import SyncPlan
from perago.domain.workspace_rows import PlanKind, PlannedChange, SeenChange, WrittenBatch
from perago.ports.commits import ChangeKind
from perago.ports.objects import DELETE_PATHS_MAX
from perago.ports.workspace_pipeline import StagingArea, TransferCounts

CHANGES_PER_RANGE = 10_000
SAMPLES_PER_RANGE = 20
CHECKED_AT_ONCE = 20_000
CHECK_LANES = 8


def write_changes(
    session: PipelineSession,
    planned: Any,  # noqa: ANN401 - a frame
    directory: Path,
    plan: SyncPlan,
    area: StagingArea,
) -> TransferCounts:
    """Upload, copy and delete on the executors; full pages of deletions."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    writes, deletes = len(plan.upload) + len(plan.copy), len(plan.delete)
    is_delete = F.col("kind") == PlanKind.DELETE.value
    parts: list[Any] = []
    if writes:
        parts.append(spread_rows(planned.where(~is_delete), session.parts_for(writes)))
    if deletes:
        pages = -(-deletes // DELETE_PATHS_MAX)
        parts.append(spread_rows(planned.where(is_delete), pages))
    work = partial(_write, session.open_work, directory, area)
    written = [part.rdd.mapPartitions(work) for part in parts]
    totals = _sum(gathered(session.session.sparkContext.union(written), WrittenBatch))
    return TransferCounts(totals.objects, totals.bytes, totals.reused, totals.requests)


def check_changes(
    session: PipelineSession,
    planned: Any,  # noqa: ANN401 - a frame
    area: StagingArea,
    count: int,
) -> None:
    """Raise unless the uncommitted paths of the branch are exactly those of the plan."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    ranges = _ranges(planned, area.prefix, count)
    rows = session.spread(ranges, partial(_changes, session.open_work, area))
    found = frame_of(session.session, rows, SeenChange)
    added = F.when(F.col("is_new"), ChangeKind.ADDED.value).otherwise(ChangeKind.CHANGED.value)
    removed = F.col("kind") == PlanKind.DELETE.value
    expected = planned.select(
        F.concat(F.lit(listing_prefix(area.prefix)), F.col("path")).alias("path"),
        F.when(removed, ChangeKind.REMOVED.value).otherwise(added).alias("kind"),
    )
    session.join_in_parts(count, at_least=1)
    odd = (
        found.alias("found")
        .join(
            expected.alias("expected"), F.col("found.path") == F.col("expected.path"), "full_outer"
        )
        .where("NOT (found.kind <=> expected.kind) OR found.problem IS NOT NULL")
        .select(
            F.coalesce("expected.path", "found.path").alias("path"),
            F.col("expected.kind").alias("expected"),
            F.col("found.kind").alias("found"),
            F.col("found.problem"),
        )
        .orderBy(F.col("problem").isNull(), "path")
        .limit(1)
        .collect()
    )
    for row in odd:
        if row["problem"] is not None:
            raise unpacked(row["problem"])
        session.open_work().up.refuse_difference(area, row["path"], row["expected"], row["found"])


def check_contents(
    session: PipelineSession,
    planned: Any,  # noqa: ANN401 - a frame
    area: StagingArea,
    count: int,
) -> None:
    """Raise unless every object that was written is what was planned."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    written = planned.where(F.col("kind") != PlanKind.DELETE.value)
    parts = session.parts_for(count)
    ranged = written.coalesce(1) if parts == 1 else written.repartitionByRange(parts, "path")
    ordered = ranged.sortWithinPartitions("path")
    gathered(ordered.rdd.mapPartitions(partial(_check, session.open_work, area)), SeenChange)


def _ranges(planned: Any, prefix: str, count: int) -> list[KeyRange]:  # noqa: ANN401 - a frame
    """Ranges of about as many changes each, by a sample of the plan."""
    wanted = count // CHANGES_PER_RANGE
    cuts: list[str] = []
    if wanted > 1:
        share = min(1.0, wanted * SAMPLES_PER_RANGE / count)
        sampled = planned.select("path").sample(share).orderBy("path").collect()
        outer = listing_prefix(prefix)
        cuts = [outer + row["path"] for row in sampled[SAMPLES_PER_RANGE::SAMPLES_PER_RANGE]]
    return [KeyRange(after, upto) for after, upto in zip(["", *cuts], [*cuts, None], strict=True)]


def _write(
    open_work: OpenPartWork, directory: Path, area: StagingArea, rows: Iterable[Any]
) -> Iterator[WrittenBatch]:
    changes = (PlannedChange(*row) for row in rows)

    def write() -> Iterator[WrittenBatch]:
        yield _sum(open_work().up.write(directory, area, changes))

    return told(write(), lambda problem: WrittenBatch(problem=problem))


def _sum(batches: Iterable[WrittenBatch]) -> WrittenBatch:
    total = WrittenBatch()
    for batch in batches:
        total = WrittenBatch(
            total.objects + batch.objects,
            total.bytes + batch.bytes,
            total.reused + batch.reused,
            total.requests + batch.requests,
        )
    return total


def _changes(open_work: OpenPartWork, area: StagingArea, part: KeyRange) -> Iterator[SeenChange]:
    rows = open_work().up.changes(area, part)
    return told(rows, lambda problem: SeenChange("", problem=problem))


def _check(open_work: OpenPartWork, area: StagingArea, rows: Iterable[Any]) -> Iterator[SeenChange]:
    """Some neighbours at a time, in lanes: what takes time is the way to the server."""

    def check() -> Iterator[SeenChange]:
        look = partial(open_work().up.check, area)
        changes = (PlannedChange(*row) for row in rows)
        with ThreadPoolExecutor(CHECK_LANES) as lanes:
            for batch in batched(changes, CHECKED_AT_ONCE):
                share = -(-len(batch) // CHECK_LANES)
                list(lanes.map(look, batched(batch, share)))
        yield from ()

    return told(check(), lambda problem: SeenChange("", problem=problem))
