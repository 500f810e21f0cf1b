"""What attempts and bodies add to the metrics, under the names of 0.6.1 and some more.

Decides names and labels; no id of an attempt is ever a label.
"""

from collections.abc import Mapping
from typing import final

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.failure import error_code
from perago.app.telemetry.body_observer import BodyObserver
from perago.app.telemetry.listeners import AttemptListener
from perago.app.telemetry.samples import Samples
from perago.domain.attempt_fence import Stale
from perago.domain.errors import OutcomeUnknownAtDeadlineError, StaleAttemptError
from perago.ports.progress import Phase
from perago.ports.task_body import BodyCall

ATTEMPT_SECONDS = "runtime.task_attempt_duration_seconds"
IO_SECONDS = "runtime.workspace_io_duration_seconds"
IO_BYTES = "runtime.workspace_io_bytes"
BUSY_SLOTS = "runtime.busy_slots"
ATTEMPTS = "runtime.task_attempts_total"
QUEUE_WAIT = "runtime.queue_wait_seconds"
FENCES = "runtime.attempt_fence_verdicts_total"
PUBLICATIONS = "runtime.publications_total"
UNKNOWN_OUTCOMES = "runtime.unknown_outcomes_total"
CACHE_HITS = "runtime.cache_hits_total"
LOST_LEASES = "runtime.lost_leases_total"
EXECUTOR_EVENTS = "runtime.executor_events_total"
OPERATIONS = {Phase.MATERIALISED: "download", Phase.STAGED: "upload", Phase.PUBLISHED: "publish"}
COUNTED = frozenset({Phase.STARTED, Phase.FENCED, *OPERATIONS})


@final
class AttemptMetrics(AttemptListener):
    """Hears attempts."""

    def __init__(self, metrics: Samples) -> None:
        self._metrics = metrics

    def phase(
        self, dispatch: Dispatch, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Durations and bytes of moves, verdicts, effects."""
        if phase not in COUNTED:
            return
        task = {"task_name": dispatch.task.name}
        metrics = self._metrics
        if phase is Phase.STARTED:
            metrics.observe(QUEUE_WAIT, task, dispatch.record.queue_wait_ms / 1000)
        if phase in OPERATIONS:
            labels = task | {"operation": OPERATIONS[phase]}
            metrics.observe(IO_SECONDS, labels, seconds)
            if isinstance(moved := facts.get("bytes"), int):
                metrics.observe(IO_BYTES, labels, moved)
        if phase is Phase.MATERIALISED and isinstance(reused := facts.get("reused"), int):
            metrics.count(CACHE_HITS, task, reused)
        if phase is Phase.FENCED:
            metrics.count(FENCES, task | {"verdict": "current"})
        if phase is Phase.PUBLISHED:
            metrics.count(PUBLICATIONS, task | {"effect": str(facts.get("effect"))})

    def lost(self, dispatch: Dispatch, stale: Stale) -> None:
        """Found by a heartbeat."""
        self._metrics.count(LOST_LEASES, {"task_name": dispatch.task.name, "field": stale.field})

    def ended(self, dispatch: Dispatch, report: AttemptReport, seconds: float) -> None:
        """Outcome and duration."""
        task = {"task_name": dispatch.task.name}
        metrics = self._metrics
        spec = dispatch.task.metrics
        if spec is None or spec.attempts:
            metrics.observe(ATTEMPT_SECONDS, task, seconds)
        outcome = {
            "status": str(report.update.status) if report.update else "not sent",
            "recorded": str(report.recorded),
            "code": "" if report.error is None else error_code(report.error),
        }
        metrics.count(ATTEMPTS, task | outcome)
        if isinstance(report.error, StaleAttemptError):
            metrics.count(FENCES, task | {"verdict": "stale"})
        if isinstance(report.error, OutcomeUnknownAtDeadlineError):
            metrics.count(UNKNOWN_OUTCOMES, task)

    def warned(self, text: str, why: str) -> None:
        """Not counted."""


@final
class BodyMetrics(BodyObserver):
    """Takes the samples of bodies, and counts executors."""

    def __init__(self, metrics: Samples) -> None:
        self._metrics = metrics

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """Not counted."""

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """Not counted."""

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Under the name and labels that the recorder made."""
        del call
        if metric == "gauge":
            self._metrics.gauge(name, labels, value)
        else:
            self._metrics.observe(name, labels, value)

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Not counted."""

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """Starts, ends, restarts."""
        del slot, facts
        self._metrics.count(EXECUTOR_EVENTS, {"event": event.removeprefix("executor ")})
