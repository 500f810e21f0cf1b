"""Each attempt as a span with its steps, under the names of OpenTelemetry's messaging rules.

Collects while an attempt runs, hands over when it is over. Where spans go is not known here.
"""

from collections.abc import Mapping
from typing import final

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.failure import error_code
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import ExecutionId
from perago.domain.attempt_fence import Stale
from perago.domain.secret_text import NO_SECRETS, Secrets
from perago.ports.clock import Clock
from perago.ports.progress import Phase
from perago.ports.telemetry import FinishedSpan, FinishedStep, Telemetry

NO_STEPS = frozenset({Phase.STARTED, Phase.ENDED, Phase.TRANSFERRING, Phase.WARNED})


@final
class AttemptSpans(AttemptListener):
    """Hears attempts."""

    def __init__(self, telemetry: Telemetry, clock: Clock, secrets: Secrets = NO_SECRETS) -> None:
        self._telemetry = telemetry
        self._secrets = secrets
        self._clock = clock
        self._steps: dict[ExecutionId, list[FinishedStep]] = {}

    def phase(
        self, dispatch: Dispatch, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """A step that took so long ends now."""
        if phase in NO_STEPS:
            return
        ended = self._clock.now().timestamp()
        told = {
            f"perago.{key}": self._secrets.masked(each) if isinstance(each, str) else each
            for key, each in facts.items()
            if isinstance(each, str | int | float | bool)
        }
        step = FinishedStep(str(phase), ended - seconds, ended, told)
        self._steps.setdefault(dispatch.execution_id, []).append(step)

    def lost(self, dispatch: Dispatch, stale: Stale) -> None:
        """A moment without length."""
        now = self._clock.now().timestamp()
        step = FinishedStep("lease lost", now, now, {"perago.field": stale.field})
        self._steps.setdefault(dispatch.execution_id, []).append(step)

    def ended(self, dispatch: Dispatch, report: AttemptReport, seconds: float) -> None:
        """Hand over the span."""
        ended = self._clock.now().timestamp()
        self._telemetry.span(
            FinishedSpan(
                name=f"process {dispatch.task.name}",
                began=ended - seconds,
                ended=ended,
                facts=_facts(dispatch, report),
                steps=tuple(self._steps.pop(dispatch.execution_id, ())),
                parent=dispatch.traceparent,
                error=_error(report),
            )
        )

    def warned(self, text: str, why: str) -> None:
        """Belongs to no attempt."""


def _facts(dispatch: Dispatch, report: AttemptReport) -> dict[str, str | int]:
    attempt = dispatch.attempt
    facts: dict[str, str | int] = {
        "messaging.system": "conductor",
        "messaging.operation.name": "process",
        "messaging.destination.name": attempt.task_type,
        "messaging.message.id": attempt.task_id,
        "perago.execution_id": dispatch.execution_id,
        "perago.workflow_id": attempt.workflow_id,
        "perago.reference_name": attempt.reference_name,
        "perago.retry_count": attempt.retry_count,
        "perago.worker_id": dispatch.settings.worker_id,
        "perago.status": str(report.update.status) if report.update else "not sent",
        "perago.recorded": str(report.recorded),
    }
    if report.error is not None:
        facts["error.type"] = error_code(report.error) or type(report.error).__name__
    return facts


def _error(report: AttemptReport) -> str | None:
    if report.error is not None:
        return (report.update.reason if report.update else None) or type(report.error).__name__
    return f"the end was {report.recorded}" if report.recorded.speaks_against_it else None
