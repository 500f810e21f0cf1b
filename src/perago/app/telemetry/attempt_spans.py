"""Each attempt as a span with its steps, and which signals the settings ask to export.

`AttemptSpans` uses the names of OpenTelemetry's messaging rules; it collects while an attempt runs
and hands over when it is over. `ExportedSignals` reads the standard `OTEL_*` variables and our
settings. Where spans go is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.settings.runtime_config import metrics_config
from perago.app.settings.settings import Settings
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import ExecutionId
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.system import Clock
from perago.ports.telemetry import FinishedSpan, FinishedStep, Telemetry
from perago.ports.workspace import Phase

# Start and end are the span itself; transfers and warnings are moments inside of other steps.
NO_STEPS = frozenset({Phase.STARTED, Phase.TRANSFERRING, Phase.WARNED, Phase.WAITING})


@final
class AttemptSpans(AttemptListener):
    """Hears attempts."""

    def __init__(self, telemetry: Telemetry, clock: Clock, secrets: Secrets = NO_SECRETS) -> None:
        self._telemetry = telemetry
        self._secrets = secrets
        self._clock = clock
        self._steps: dict[ExecutionId, list[FinishedStep]] = {}

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """A step that took so long ends now; the end hands over the span."""
        if phase in NO_STEPS:
            return
        ended = self._clock.now().timestamp()
        if phase is Phase.ENDED:
            self._hand_over(attempt, facts, began=ended - seconds, ended=ended)
            return
        began = ended if phase is Phase.LOST else ended - seconds  # a loss is a moment
        attributes = {
            f"perago.{key}": self._secrets.masked(each) if isinstance(each, str) else each
            for key, each in facts.items()
            if isinstance(each, str | int | float | bool)
        }
        step = FinishedStep(str(phase), began, ended, attributes)
        self._steps.setdefault(attempt.execution_id, []).append(step)

    def _hand_over(
        self, attempt: Attempt, facts: Mapping[str, object], *, began: float, ended: float
    ) -> None:
        self._telemetry.span(
            FinishedSpan(
                name=f"process {attempt.task.name}",
                began=began,
                ended=ended,
                facts=_facts(attempt, facts),
                steps=tuple(self._steps.pop(attempt.execution_id, ())),
                parent=attempt.traceparent,
                error=_error(facts),
            )
        )


def _facts(attempt: Attempt, end: Mapping[str, object]) -> dict[str, str | int]:
    row = attempt.row
    facts: dict[str, str | int] = {
        "messaging.system": "conductor",
        "messaging.operation.name": "process",
        "messaging.destination.name": row.task_type,
        "messaging.message.id": row.task_id,
        "perago.execution_id": attempt.execution_id,
        "perago.workflow_id": row.workflow_id,
        "perago.reference_name": row.reference_name,
        "perago.retry_count": row.retry_count,
        "perago.worker_id": attempt.settings.worker_id,
        "perago.status": str(end["status"]),
        "perago.recorded": str(end["recorded"]),
    }
    if "error" in end:
        facts["error.type"] = str(end["code"])
    return facts


def _error(end: Mapping[str, object]) -> str | None:
    if "error" in end:
        return str(end["reason"]) or type(end["error"]).__name__
    recorded = Recorded(str(end["recorded"]))
    return f"the completion was {recorded}" if recorded.speaks_against_it else None


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSignals:
    """What is sent; of metrics, what is not left to the standard variables."""

    traces: bool = False
    metrics: bool = False
    metrics_endpoint: str | None = None
    metrics_gzip: bool = False
    metrics_timeout_seconds: float | None = None
    metrics_interval_millis: float | None = None

    @property
    def any(self) -> bool:
        """Whether anything is sent at all."""
        return self.traces or self.metrics

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str]) -> Self:
        """Read settings, and from the environment what is no setting of ours."""
        if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls()
        everything = bool(environment.get(ENDPOINT, "").strip())
        to_traces = everything or bool(environment.get(TRACES_ENDPOINT, "").strip())
        config = metrics_config(settings)
        timeout = None if config is None else config.timeout_millis
        return cls(
            traces=to_traces and _is_wanted(environment, "OTEL_TRACES_EXPORTER"),
            metrics=(everything or config is not None)
            and _is_wanted(environment, "OTEL_METRICS_EXPORTER"),
            metrics_endpoint=None if config is None else config.endpoint,
            metrics_gzip=config is not None and config.compression == "gzip",
            metrics_timeout_seconds=None if timeout is None else timeout / 1000,
            metrics_interval_millis=None if config is None else config.export_interval_millis,
        )


def _is_wanted(environment: Mapping[str, str], name: str) -> bool:
    """Unset means OTLP."""
    named = environment.get(name, "").strip()
    return not named or "otlp" in {each.strip() for each in named.split(",")}
