"""The log lines of attempts and task functions, and the story that one attempt tells.

`AttemptStory` is the progress port of one attempt: it measures steps, counts requests, and hands
each event to the listeners. `AttemptLog` and `BodyLog` are listeners that write to Python's logging
with the ids of the attempt. Files and formats are not known here.
"""

import logging
import traceback
from collections.abc import Mapping
from typing import final

from perago.app.attempt.context import Attempt
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.failure import error_code
from perago.app.telemetry.listeners import AttemptListener, BodyObserver, facts_of, write
from perago.domain.attempt import Stale
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall
from perago.ports.telemetry import count_requests
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.attempt")
WORKER_LOGGER = logging.getLogger("perago.worker")
TASK_LOGGER = logging.getLogger("perago.task")
EXECUTOR_LOGGER = logging.getLogger("perago.executor")
# The end is one line with the report, from `ended`: as phases these two would say it again.
LOGGED_AT_THE_END = frozenset({Phase.ENDED, Phase.COMPLETED})


@final
class AttemptLog(AttemptListener):
    """One line a step, one for the end."""

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Write one line for a phase; `ended` writes the line of the end."""
        if phase in LOGGED_AT_THE_END:
            return
        level = logging.WARNING if phase is Phase.WARNED else logging.INFO
        if not LOGGER.isEnabledFor(level):  # before the facts are collected, which costs more
            return
        line = {"phase": str(phase), "seconds": round(seconds, 6), **facts}
        if phase is Phase.STARTED:
            line["queue_wait_ms"] = attempt.record.queue_wait_ms
        write(LOGGER, level, f"attempt {phase}", facts_of(attempt) | line)

    def lost(self, attempt: Attempt, stale: Stale) -> None:
        """The body is being stopped."""
        facts = {"field": stale.field, "expected": stale.expected, "found": stale.found}
        write(LOGGER, logging.WARNING, "attempt lost", facts_of(attempt) | facts)

    def ended(self, attempt: Attempt, report: AttemptReport, seconds: float) -> None:
        """Outcome, reason, traceback."""
        facts: dict[str, object] = {
            "status": str(report.update.status) if report.update else "not sent",
            "recorded": str(report.recorded),
            "seconds": round(seconds, 6),
        }
        level = logging.INFO
        if report.error is not None:
            level = logging.WARNING
            facts["reason"] = report.update.reason if report.update else str(report.error)
            facts["code"] = error_code(report.error)
            facts["traceback"] = _traceback(report.error)
        if report.recorded.speaks_against_it:
            level = logging.WARNING
        write(LOGGER, level, "attempt ended", facts_of(attempt) | facts)

    def warned(self, text: str, why: str) -> None:
        """Once, without an attempt."""
        write(LOGGER, logging.WARNING, text, {"error": why})


@final
class BodyLog(BodyObserver):
    """What bodies print and log, with the ids of their attempt."""

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """One line that was printed."""
        level = logging.INFO if stream == "stdout" else logging.WARNING
        write(TASK_LOGGER, level, line, _ids(call) | {"stream": stream})

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """One record, at its own level."""
        write(TASK_LOGGER, level, text, _ids(call) | {"task_logger": logger})

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Not for the log."""

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """How far a body is."""
        write(TASK_LOGGER, logging.INFO, message, _ids(call) | {"progress": dict(facts)})

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """An executor comes or goes."""
        level = logging.INFO if event == "executor started" else logging.WARNING
        write(EXECUTOR_LOGGER, level, event, {"slot": slot, **facts})


def warn_of_disk(total: int, free: int) -> None:
    """Polling stops for lack of room."""
    facts = {"free_bytes": free, "total_bytes": total}
    write(WORKER_LOGGER, logging.WARNING, "disk nearly full; polling no workspace tasks", facts)


def warn_of_service(name: str, error: str) -> None:
    """A service does not answer before anything was polled."""
    write(WORKER_LOGGER, logging.WARNING, f"circuit open: {name}", {"error": error})


def _traceback(error: Exception) -> str:
    """The body's own traceback where there is one, else ours."""
    notes = [note for note in getattr(error, "__notes__", ()) if note]
    return "\n".join(notes) or "".join(traceback.format_exception(error))


def _ids(call: BodyCall | None) -> dict[str, object]:
    if call is None:
        return {}
    return {
        "task_name": call.task_name,
        "workflow_id": call.attempt.workflow_id,
        "task_id": call.attempt.task_id,
        "reference_name": call.attempt.reference_name,
        "retry_count": call.attempt.retry_count,
        "execution_id": call.execution_id,
    }


@final
class AttemptStory(Progress):
    """Listens to one attempt."""

    def __init__(self, attempt: Attempt, listener: AttemptListener, clock: Clock) -> None:
        self._attempt = attempt
        self._listener = listener
        self._clock = clock
        self._begun = self._last = clock.monotonic()
        self._requests = count_requests()
        self._requests_before = 0
        self._level: object = None
        self._published: object = None
        self.task_log_line = ""

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Take the time since the phase before."""
        now = self._clock.monotonic()
        seconds, self._last = now - self._last, now
        if phase is Phase.POLICY:
            self._level = facts.get("level")
        if phase is Phase.PUBLISHED:
            self._published = facts.get("ref")
        sent, self._requests_before = (
            self._requests.sent - self._requests_before,
            self._requests.sent,
        )
        self._listener.phase(self._attempt, phase, {**facts, "requests": sent}, seconds)

    def ended(self, report: AttemptReport) -> None:
        """Close the story.

        Tasks without a workspace leave no line in the task's log: it would be one more request of
        an attempt that sends a few in all.
        """
        seconds = self._clock.monotonic() - self._begun
        self._listener.ended(self._attempt, report, seconds)
        if not self._attempt.task.has_workspace:
            return
        status = report.update.status if report.update else "not sent"
        parts = {
            "execution": self._attempt.execution_id,
            "status": status,
            "level": self._level,
            "published": self._published,
            "recorded": report.recorded,
            "traceparent": self._attempt.traceparent,
            "worker": self._attempt.settings.worker_id,
            "seconds": f"{seconds:.3f}",
            "requests": self._requests.sent,
        }
        line = " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)
        self.task_log_line = f"perago {line}"
