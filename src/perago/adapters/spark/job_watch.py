"""Follows the jobs of one attempt: says how far they are, cancels them when it is revoked."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, final

PAUSE_SECONDS = 1.0
REPORT_EVERY = 5


@final
class JobWatch:
    """Looks once a second until it is ended; a look that fails is a look that saw nothing."""

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
        """The body is over."""
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
