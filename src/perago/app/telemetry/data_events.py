"""Each attempt as two events of data: it began, it ended; with what it read and published.

`AttemptDataEvents` reads the events of attempts. `wants_data_events` reads the variables by which
OpenLineage's library is told where to send.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast, final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.authoring.envelope import read_workspace_input
from perago.app.authoring.prefix_template import resolved_prefix
from perago.app.runs.models import FinishParams
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import AttemptStatus, ExecutionId
from perago.domain.publication import EFFECT_LABELS, Keep
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.system import Clock
from perago.ports.telemetry import DataEvent, DataEventKind, DataEvents, DataVersion, Telemetry
from perago.ports.workspace import Phase

_WHERE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")


def wants_data_events(environment: Mapping[str, str]) -> bool:
    """Whether the library's variables say where to send, and none of them says not to."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(name.startswith(_WHERE) and value.strip() for name, value in environment.items())


@dataclass(frozen=True, slots=True)
class Collectors:
    """Who is told outside the worker: a collector of telemetry, a catalogue of data."""

    telemetry: Telemetry | None = None
    data_events: DataEvents | None = None


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
            self._send(attempt, data, _end(facts), None if error is None else str(error))

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
                tags=_tags(attempt),
                error=None if error is None else self._secrets.masked(error),
            )
        )


def _end(facts: Mapping[str, object]) -> DataEventKind:
    """How the attempt ended for a catalogue.

    An attempt that was superseded or handed back is aborted: another attempt does its work.
    """
    recorded = Recorded(str(facts["recorded"]))
    if recorded is Recorded.SUPERSEDED or facts["status"] not in set(AttemptStatus):
        return DataEventKind.ABORT
    return DataEventKind.FAIL if "error" in facts else DataEventKind.COMPLETE


def _tags(attempt: Attempt) -> dict[str, str]:
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
