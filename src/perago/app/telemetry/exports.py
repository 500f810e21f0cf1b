"""What leaves the worker of each attempt: a span with its steps, and two events of data.

`AttemptSpans` uses the names of OpenTelemetry's messaging rules; it collects while an attempt runs
and hands over when it is over. `AttemptDataEvents` tells a catalogue that an attempt began and that
it ended, with what it read and published. `exported_signals` and `wants_data_events` read what is
asked for: the standard variables of OpenTelemetry and of OpenLineage's library, and our settings.
Where it goes is not known here.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast, final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.authoring.envelope import read_workspace_input, resolved_prefix
from perago.app.runs.finish import FinishParams
from perago.app.settings.runtime_config import metrics_config
from perago.app.settings.settings import Settings
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import AttemptStatus, ExecutionId
from perago.domain.publication import EFFECT_LABELS, Keep
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.system import Clock
from perago.ports.telemetry import (
    DataEvent,
    DataEventKind,
    DataEvents,
    DataVersion,
    ExportedSignals,
    FinishedSpan,
    FinishedStep,
    Telemetry,
)
from perago.ports.workspace import Phase

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_WHERE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
# Start and end are the span itself; transfers and warnings are moments inside of other steps.
NO_STEPS = frozenset({Phase.STARTED, Phase.TRANSFERRING, Phase.WARNED, Phase.WAITING})


@dataclass(frozen=True, slots=True)
class Collectors:
    """Who is told outside the worker: a collector of telemetry, a catalogue of data."""

    telemetry: Telemetry | None = None
    data_events: DataEvents | None = None


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
                facts=_span_facts(attempt, facts),
                steps=tuple(self._steps.pop(attempt.execution_id, ())),
                parent=attempt.traceparent,
                error=_error_of(facts),
            )
        )


def _span_facts(attempt: Attempt, end: Mapping[str, object]) -> dict[str, str | int]:
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


def _error_of(end: Mapping[str, object]) -> str | None:
    if "error" in end:
        return str(end["reason"]) or type(end["error"]).__name__
    recorded = Recorded(str(end["recorded"]))
    return f"the completion was {recorded}" if recorded.speaks_against_it else None


@dataclass(slots=True)
class _Data:
    """What is known of one attempt under way."""

    source: DataVersion | None
    target: DataVersion | None
    published: bool = False


@final
class AttemptDataEvents(AttemptListener):
    """Hears attempts."""

    def __init__(self, events: DataEvents, clock: Clock, secrets: Secrets = NO_SECRETS) -> None:
        self._events = events
        self._clock = clock
        self._secrets = secrets
        self._under_way: dict[ExecutionId, _Data] = {}

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Its start, its publication and its end."""
        del seconds
        if phase is Phase.STARTED:
            data = _data_of(attempt)
            self._under_way[attempt.execution_id] = data
            self._send(attempt, data, DataEventKind.START)
        elif phase is Phase.PUBLISHED:
            data = self._under_way[attempt.execution_id]
            # An attempt that keeps has published nothing, so a catalogue is told of no output.
            if data.target is not None and facts["effect"] != EFFECT_LABELS[Keep]:
                data.target = replace(data.target, commit=str(facts["ref"]))
                data.published = True
        elif phase is Phase.ENDED:
            data = self._under_way.pop(attempt.execution_id)
            error = facts.get("reason") if "error" in facts else None
            self._send(attempt, data, _kind_of_end(facts), None if error is None else str(error))

    def _send(
        self, attempt: Attempt, data: _Data, kind: DataEventKind, error: str | None = None
    ) -> None:
        # Of a completed attempt only: one that was superseded after its commit was published has a
        # successor, which adopts the publication and names it.
        completes = kind is DataEventKind.COMPLETE and data.published
        outputs = (data.target,) if completes and data.target is not None else ()
        self._events.send(
            DataEvent(
                kind=kind,
                at=self._clock.now(),
                execution_id=attempt.execution_id,
                task_name=attempt.row.task_type,
                workflow_id=attempt.row.workflow_id,
                inputs=() if data.source is None else (data.source,),
                outputs=outputs,
                tags=_tags_of(attempt),
                error=None if error is None else self._secrets.masked(error),
            )
        )


def _kind_of_end(facts: Mapping[str, object]) -> DataEventKind:
    """How the attempt ended for a catalogue.

    An attempt that was superseded or handed back is aborted: another attempt does its work.
    """
    recorded = Recorded(str(facts["recorded"]))
    if recorded is Recorded.SUPERSEDED or facts["status"] not in set(AttemptStatus):
        return DataEventKind.ABORT
    return DataEventKind.FAIL if "error" in facts else DataEventKind.COMPLETE


def _tags_of(attempt: Attempt) -> dict[str, str]:
    """What finds the attempt in Conductor and in the log, and the code that ran."""
    row = attempt.row
    tags = {
        "conductor.task_id": row.task_id,
        "conductor.workflow_id": row.workflow_id,
        "conductor.reference_name": row.reference_name,
        "perago.retry_count": str(row.retry_count),
    }
    if attempt.settings.code_version:
        tags["perago.code_version"] = attempt.settings.code_version
    return tags


def _data_of(attempt: Attempt) -> _Data:
    """What the input names; an input that cannot be read names nothing, and fails the attempt."""
    with suppress(Exception):
        if attempt.task.has_workspace:
            return _data_of_workspace(attempt)
        given = cast("Mapping[str, object]", attempt.record.input_data["params"])
        if "run" in given:  # perago.finish publishes a run
            finish = FinishParams.model_validate(given)
            workspace, run = finish.workspace, finish.run
            source = DataVersion(workspace.repository, workspace.branch, workspace.ref, "")
            return _Data(source, replace(source, branch=run.branch))
    return _Data(None, None)


def _data_of_workspace(attempt: Attempt) -> _Data:
    assert attempt.task.workspace is not None, "asked before"
    given = read_workspace_input(attempt.record.input_data, strict=False)
    prefix = resolved_prefix(attempt.task, attempt.record.input_data["params"])
    source = DataVersion(given.repository, given.branch, given.ref, prefix)
    return _Data(source, None if attempt.task.workspace.read_only else source)


def wants_data_events(environment: Mapping[str, str]) -> bool:
    """Whether the library's variables say where to send, and none of them says not to."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(name.startswith(_WHERE) and value.strip() for name, value in environment.items())


def exported_signals(settings: Settings, environment: Mapping[str, str]) -> ExportedSignals:
    """Read settings, and from the environment what is no setting of ours."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ExportedSignals()
    everything = bool(environment.get(ENDPOINT, "").strip())
    to_traces = everything or bool(environment.get(TRACES_ENDPOINT, "").strip())
    config = metrics_config(settings)
    found = ExportedSignals(
        traces=to_traces and _is_wanted(environment, "OTEL_TRACES_EXPORTER"),
        metrics=(everything or config is not None)
        and _is_wanted(environment, "OTEL_METRICS_EXPORTER"),
    )
    if config is None:
        return found
    timeout = config.timeout_millis
    return replace(
        found,
        metrics_endpoint=config.endpoint,
        metrics_gzip=config.compression == "gzip",
        metrics_timeout_seconds=None if timeout is None else timeout / 1000,
        metrics_interval_millis=config.export_interval_millis,
    )


def _is_wanted(environment: Mapping[str, str], name: str) -> bool:
    """Unset means OTLP."""
    named = environment.get(name, "").strip()
    return not named or "otlp" in {each.strip() for each in named.split(",")}
