"""The progress of one attempt: each phase with duration and requests, told to the listeners.

Remembers what the last line in the task's log needs. Decides nothing.
"""

from collections.abc import Mapping
from typing import final

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.telemetry.listeners import AttemptListener
from perago.ports.clock import Clock
from perago.ports.progress import Phase, Progress
from perago.ports.request_count import count_requests


@final
class AttemptStory(Progress):
    """Listens to one attempt."""

    def __init__(self, dispatch: Dispatch, listener: AttemptListener, clock: Clock) -> None:
        self._dispatch = dispatch
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
        self._listener.phase(self._dispatch, phase, {**facts, "requests": sent}, seconds)

    def ended(self, report: AttemptReport) -> None:
        """Close the story; tasks without a workspace leave no line in the task's log."""
        seconds = self._clock.monotonic() - self._begun
        self._listener.ended(self._dispatch, report, seconds)
        if not self._dispatch.task.has_workspace:
            return
        status = report.update.status if report.update else "not sent"
        parts = {
            "execution": self._dispatch.execution_id,
            "status": status,
            "level": self._level,
            "published": self._published,
            "recorded": report.recorded,
            "traceparent": self._dispatch.traceparent,
            "worker": self._dispatch.settings.worker_id,
            "seconds": f"{seconds:.3f}",
            "requests": self._requests.sent,
        }
        told = " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)
        self.task_log_line = f"perago {told}"
