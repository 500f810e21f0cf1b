"""The jobs on the way up, and the watch over the jobs of a task function.

`write_changes` brings the plan onto the staging branch, `check_branch` compares the branch with the
plan. Executors read the files of the plan themselves; counts come back. Plan and changes are both
in order of path, so that one walk through the two compares a range. `JobWatch` cancels the Spark
jobs of an attempt that was told to stop, and reports their progress.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, final

from perago.adapters.spark.parts import OpenPartWork, PartUp
from perago.adapters.spark.pipeline_session import PipelineSession
from perago.adapters.spark.plan_parts import (
    PlanRange,
    PlanShare,
    WrittenPlan,
    rows_of,
    rows_of_share,
)
from perago.adapters.spark.rows import ending_with_problem, gathered
from perago.adapters.workspace.staging import difference
from perago.domain.paths import object_path
from perago.domain.sync_plan import PlanKind, PlannedChange, SeenChange, WrittenBatch, batched
from perago.ports.lakefs import ChangeKind
from perago.ports.objects import DELETE_PATHS_MAX
from perago.ports.workspace import StagingArea, TransferCounts

# Rows in memory at a time, as in a part of files (ROWS_PER_PART in `pipeline_session`). The threads
# share them: with few, most threads would wait for the last answer of each batch.
CHECKED_AT_ONCE = 20_000
# The time of a check is the way to the server and not work of this process. One more thread walks
# the branch meanwhile.
CHECKING_THREADS = 8


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
    totals = _sum(gathered(session.spread(shares, work, len(shares)), WrittenBatch))
    return TransferCounts(totals.objects, totals.bytes, totals.reused, totals.requests)


def check_branch(
    session: PipelineSession, written: WrittenPlan, folder: Path, area: StagingArea
) -> None:
    """Raise unless the branch differs from its start by exactly the plan."""
    ranges = written.ranges(area.prefix)
    work = partial(_check, session.open_work, folder, area)
    gathered(session.spread(ranges, work, len(ranges)), SeenChange)


def as_planned(
    up: PartUp, area: StagingArea, part: PlanRange, rows: Iterable[PlannedChange]
) -> Iterator[PlannedChange]:
    """The rows of a range; raises unless its uncommitted paths are exactly theirs."""
    changes = up.changes(area, part.keys)
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


def _write(
    open_work: OpenPartWork, folder: Path, directory: Path, area: StagingArea, share: PlanShare
) -> Iterator[WrittenBatch]:
    def write() -> Iterator[WrittenBatch]:
        yield _sum(open_work().up.write(directory, area, rows_of_share(folder, share)))

    return ending_with_problem(write(), lambda problem: WrittenBatch(problem=problem))


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


def _check(
    open_work: OpenPartWork, folder: Path, area: StagingArea, part: PlanRange
) -> Iterator[SeenChange]:
    """Some neighbours at a time in threads, because what takes time is the way to the server."""

    def rows() -> Iterator[PlannedChange]:
        return iter(()) if part.name is None else rows_of(folder, part.name)

    def check() -> Iterator[SeenChange]:
        up = open_work().up
        written = (row for row in rows() if row.kind != PlanKind.DELETE)
        with ThreadPoolExecutor(CHECKING_THREADS + 1) as threads:
            walk = threads.submit(deque, as_planned(up, area, part, rows()), 0)
            for batch in batched(written, CHECKED_AT_ONCE):
                share = -(-len(batch) // CHECKING_THREADS)
                list(threads.map(partial(up.check, area), batched(batch, share)))
            walk.result()
        yield from ()

    return ending_with_problem(check(), lambda problem: SeenChange("", problem=problem))


def _kind_of(row: PlannedChange) -> str:
    if row.kind == PlanKind.DELETE:
        return ChangeKind.REMOVED.value
    return ChangeKind.ADDED.value if row.is_new else ChangeKind.CHANGED.value


PAUSE_SECONDS = 1.0  # at the longest a cancelled attempt's jobs go on so much longer
REPORT_EVERY = 5  # looks: a line each second would drown the log of a job of hours


@final
class JobWatch:
    """Looks once a second until it is ended; progress that cannot be read is left out."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - a SparkContext, or None over Spark Connect
        group: str,
        cancel: Callable[[], object],
        cancelled: Callable[[], bool],
        report: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._context = context
        self._group = group
        self._cancel = cancel
        self._cancelled = cancelled
        self._report = report
        self._ended = threading.Event()
        self._last: Mapping[str, object] = {}

    def follow(self) -> None:
        """Run in a thread of its own."""
        looks = 0
        while not self._ended.wait(PAUSE_SECONDS):
            if self._cancelled():
                self._cancel()
                return
            looks += 1
            if looks % REPORT_EVERY == 0:
                self._say()

    def end(self) -> None:
        """Stop looking: the task function has ended."""
        self._ended.set()

    def _say(self) -> None:
        if self._context is None:
            return
        try:
            seen = _progress(self._context.statusTracker(), self._group)
        except Exception as error:  # noqa: BLE001 - progress never ends a body
            seen = {"unknown": type(error).__name__}
        if seen and seen != self._last:
            self._last = seen
            self._report("spark", seen)


def cancel_jobs(context: Any, group: str) -> None:  # noqa: ANN401 - a SparkContext
    """Cancel what runs; Spark warns of a group without a job, which is how most bodies end."""
    tracker = context.statusTracker()
    if not {*tracker.getJobIdsForGroup(group)}.isdisjoint(tracker.getActiveJobsIds()):
        context.cancelJobGroup(group)


def _progress(tracker: Any, group: str) -> Mapping[str, object]:  # noqa: ANN401 - a StatusTracker
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [
        tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
    ]
    known = [stage for stage in stages if stage is not None]
    if not known:
        return {}
    return {
        "jobs": len(jobs),
        "tasks": sum(stage.numTasks for stage in known),
        "tasks_done": sum(stage.numCompletedTasks for stage in known),
        "tasks_failed": sum(stage.numFailedTasks for stage in known),
    }
