"""One call of a team's function, wherever it runs: attempt in context, metrics bound.

Whatever the function raises becomes a value; only a cancellation from outside passes through.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from perago.app.authoring.current_attempt import CancelSignal, CurrentAttempt, running
from perago.app.authoring.failure import error_is_terminal, failure_reason
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.metric_recorder import TaskAttemptMetricContext, sendable_text
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.body_observer import BodyObserver, NobodyObserves
from perago.app.worker.author_traceback import author_traceback
from perago.app.worker.body_workspace import body_workspace
from perago.app.worker.calling_recorder import CallingRecorder
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned


class BodyCancelled(BaseException):
    """Raised inside a body that has to end now."""


@dataclass(frozen=True, slots=True)
class BodySurroundings:
    """What a body is given besides its parameters."""

    observer: BodyObserver = field(default_factory=NobodyObserves)
    worker_id: str = ""
    cancel: CancelSignal = field(default_factory=CancelSignal)


def run_body(
    task: TaskDefinition, call: BodyCall, around: BodySurroundings | None = None
) -> BodyOutcome:
    """Call the function; an exit of the interpreter becomes a value too."""
    around = BodySurroundings() if around is None else around
    attempt = _current_attempt(call, around)

    def take(metric: str, name: str, value: float, labels: Mapping[str, str]) -> None:
        around.observer.sampled(call, metric, name, value, labels)

    recorder = CallingRecorder(take, _metric_context(call, around.worker_id))
    try:
        with running(attempt), body_workspace(call, attempt) as workspace:
            return BodyReturned(invoke_body(task, call.params, workspace, metrics=recorder))
    except BodyCancelled:
        raise
    except SystemExit as error:
        return BodyRaised(f"SystemExit: the body exited with code {error.code}")
    except BaseException as error:  # noqa: BLE001 - a body may raise anything
        return BodyRaised(
            reason=failure_reason(error),
            terminal=error_is_terminal(error),
            traceback=author_traceback(error),
        )


def _current_attempt(call: BodyCall, around: BodySurroundings) -> CurrentAttempt:
    def report(message: str, facts: Mapping[str, object]) -> None:
        with suppress(Exception):  # what a body says of its progress never fails it
            said = {sendable_text(name): _sendable(facts[name]) for name in facts}
            around.observer.progressed(call, sendable_text(message), said)

    return CurrentAttempt(
        task_name=call.task_name,
        workflow_id=call.attempt.workflow_id,
        task_id=call.attempt.task_id,
        reference_name=call.attempt.reference_name,
        execution_id=call.execution_id,
        retry_count=call.attempt.retry_count,
        iteration=call.attempt.iteration,
        cancel=around.cancel,
        report=report,
    )


def _sendable(value: object) -> object:
    """What JSON can say stays as it is, and everything else becomes a text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return sendable_text(value)


def _metric_context(call: BodyCall, worker_id: str) -> TaskAttemptMetricContext:
    return TaskAttemptMetricContext(
        task_name=call.task_name,
        task_id=call.attempt.task_id,
        workflow_instance_id=call.attempt.workflow_id,
        execution_id=call.execution_id,
        worker_id=worker_id,
        retry_count=call.attempt.retry_count,
    )
