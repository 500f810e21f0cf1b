"""Calls one task function, in whichever process it runs.

`run_body` gives the function its workspace, its metric recorder and the current attempt, and turns
every way in which it ends into a value.
"""

import asyncio
import math
import traceback
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Self, TypeAlias, cast, final

from perago.app.authoring import metrics
from perago.app.authoring.current_attempt import (
    CancelSignal,
    ChangesAsker,
    CheckpointTaker,
    CopyTaken,
    CurrentAttempt,
    running,
)
from perago.app.authoring.failure import error_is_terminal, failure_reason
from perago.app.authoring.invocation import invoke_body
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import StagedView, check_name, open_view
from perago.app.telemetry.listeners import BodyObserver
from perago.domain.errors import ChangesRefusedError, TaskDefinitionError
from perago.ports import task_body
from perago.ports.workspace import SparkWorkspace

# By path: frames of Perago stand between the worker and the first line of the author.
_OURS = Path(__file__).parents[2]
# A function that runs in the loop of its test waits for an answer that this loop cannot give
# meanwhile. Only this limit ends that wait. It is far above the few requests of an answer, and
# such a test hangs for so long before it fails.
ASK_SECONDS_MAX = 60.0

Ask: TypeAlias = Callable[[task_body.AskChanges], task_body.Changes | None]
"""Puts a question of the function, which waits, to the process that has the keys."""


class BodyCancelled(BaseException):
    """Raised inside a body that has to end now."""


def ask_beside_the_loop(question: task_body.AskChanges) -> task_body.Changes | None:
    """For a function that runs in the event loop itself: the answer comes from another thread."""
    answered: Future[task_body.Changes | None] = Future()

    def work() -> None:
        try:
            answered.set_result(asyncio.run(question()))
        except Exception as error:  # noqa: BLE001 - it is raised where the function waits
            answered.set_exception(error)

    Thread(target=work, name="perago-changes", daemon=True).start()
    return answered.result(ASK_SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class BodySurroundings:
    """What a body is given besides its parameters."""

    observer: BodyObserver = field(default_factory=BodyObserver)
    worker_id: str = ""
    cancel: CancelSignal = field(default_factory=CancelSignal)
    ask: Ask = ask_beside_the_loop


def run_body(
    task: TaskDefinition, call: task_body.BodyCall, around: BodySurroundings | None = None
) -> task_body.BodyOutcome:
    """Call the function; an exit of the interpreter becomes a value too."""
    around = BodySurroundings() if around is None else around
    context = metrics.TaskAttemptMetricContext(
        task_name=call.task_name,
        task_id=call.attempt.task_id,
        workflow_instance_id=call.attempt.workflow_id,
        execution_id=call.execution_id,
        worker_id=around.worker_id,
        retry_count=call.attempt.retry_count,
    )
    recorder = _ObserverRecorder(around.observer, call, context)
    try:
        with (
            _running_attempt(task, call, around) as attempt,
            body_workspace(call, attempt) as workspace,
        ):
            if call.staged is not None:
                return run_checks(task, open_view(call.staged, workspace))
            return task_body.BodyReturned(
                invoke_body(task, call.params, workspace, metrics=recorder)
            )
    except BodyCancelled:
        raise
    except SystemExit as error:
        return task_body.BodyRaised(f"SystemExit: the task function exited with code {error.code}")
    except BaseException as error:  # noqa: BLE001 - a body may raise anything
        return task_body.BodyRaised(
            reason=failure_reason(error),
            terminal=error_is_terminal(error),
            traceback=author_traceback(error),
        )


def run_checks(task: TaskDefinition, view: StagedView) -> task_body.BodyOutcome:
    """Run the checks of a task in their order; the first that fails is the outcome."""
    assert task.workspace is not None, "only workspace tasks stage"
    for check in task.workspace.checks:
        try:
            _refuse_verdict(cast("Callable[[StagedView], object]", check)(view))
        except BodyCancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - a check may raise anything
            return task_body.BodyRaised(
                reason=f"check {check_name(check)} failed: {_check_reason(error)}",
                terminal=error_is_terminal(error),
                traceback=author_traceback(error),
            )
    return task_body.BodyReturned({})


def _refuse_verdict(returned: object) -> None:
    """A check that returns False would pass unnoticed, because only raising fails the attempt."""
    if returned is not None:
        text = f"it returned {type(returned).__name__}, expected None; a check fails by raising"
        raise TaskDefinitionError(text, code="PRG-T022")


def _check_reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"SystemExit: it exited with code {error.code}"
    return failure_reason(error)


@contextmanager
def _running_attempt(
    task: TaskDefinition, call: task_body.BodyCall, around: BodySurroundings
) -> Generator[CurrentAttempt]:
    def report(message: str, facts: Mapping[str, object]) -> None:
        with suppress(Exception):  # what a body says of its progress never fails it
            said = {metrics.sendable_text(name): _sendable(facts[name]) for name in facts}
            around.observer.progressed(call, metrics.sendable_text(message), said)

    terms = _checkpoint_terms(task, call)

    def taken(copy: CopyTaken) -> None:
        report("checkpoint taken", {"files": copy.files, "bytes": copy.bytes})
        if call.checkpoints is not None:
            call.checkpoints.taken()

    # Threads that the function leaves behind still have the attempt: their calls do nothing then.
    with (
        closing(CheckpointTaker(terms, taken, cancel=around.cancel)) as take,
        closing(ChangesAsker(lambda: _ask(task, call, around))) as ask,
    ):
        attempt = CurrentAttempt(
            task_name=call.task_name,
            workflow_id=call.attempt.workflow_id,
            task_id=call.attempt.task_id,
            reference_name=call.attempt.reference_name,
            execution_id=call.execution_id,
            retry_count=call.attempt.retry_count,
            iteration=call.attempt.iteration,
            cancel=around.cancel,
            report=report,
            resumed_from=terms.found,
            take=take,
            ask=ask,
        )
        with running(attempt):
            yield attempt


def _ask(
    task: TaskDefinition, call: task_body.BodyCall, around: BodySurroundings
) -> task_body.Changes | None:
    """Ask what changed; whatever goes wrong is one error of ours, with its text."""
    if call.changes is None:
        because = "the task has no workspace"
        if call.staged is not None:
            because = "a check is shown what changed by its view"
        elif task.workspace is not None:
            because = "whoever runs this attempt does not ask lakeFS for it"
        raise ChangesRefusedError.because(because)
    try:
        return around.ask(call.changes)
    except ChangesRefusedError:
        raise
    except Exception as error:
        raise ChangesRefusedError.because(str(error) or type(error).__name__) from error


def _checkpoint_terms(task: TaskDefinition, call: task_body.BodyCall) -> task_body.CheckpointTerms:
    """The terms of this call, or why it has none."""
    if call.checkpoints is not None:
        return call.checkpoints.terms
    why = "the attempt is not under policy settled; run `perago fence install REPOSITORY BRANCH`"
    if call.staged is not None:
        why = "a check judges a staged commit, and is not run again"
    elif task.workspace is None:
        why = "the task has no workspace, so no repository to keep one in"
    elif task.workspace.read_only:
        why = "the task is read-only, and such a task writes nothing"
    elif task.on_spark:
        why = "a Spark task writes to lakeFS itself; write a table instead"
    return task_body.CheckpointTerms(refused=why)


def _sendable(value: object) -> object:
    """What JSON can say stays as it is, and everything else becomes a text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return metrics.sendable_text(value)


@contextmanager
def body_workspace(
    call: task_body.BodyCall, attempt: CurrentAttempt
) -> Generator[Path | SparkWorkspace | None]:
    """Open the workspace of a call for the time of its body."""
    if call.spark is None:
        yield call.workspace
        return
    from perago.app.pipeline_parts import open_spark_workspace  # noqa: PLC0415 - rarely needed

    with open_spark_workspace(call.spark, attempt) as workspace:
        yield workspace


@final
class _ObserverRecorder(metrics.MetricRecorder):
    """Hands each sample of one call to an observer."""

    def __init__(
        self,
        observer: BodyObserver,
        call: task_body.BodyCall,
        context: metrics.TaskAttemptMetricContext,
    ) -> None:
        self._observer = observer
        self._call = call
        self._context = context

    @property
    def context(self) -> metrics.TaskAttemptMetricContext:
        return self._context

    def with_context(self, context: metrics.TaskAttemptMetricContext) -> Self:
        return type(self)(self._observer, self._call, context)

    def record(
        self, kind: metrics.MetricKind, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        self._observer.sampled(self._call, kind.value, name, value, labels)


def author_traceback(error: BaseException) -> str:
    """Return the text of a traceback; empty when no line of the author's took part."""
    frames = error.__traceback__
    while frames is not None and _OURS in Path(frames.tb_frame.f_code.co_filename).parents:
        frames = frames.tb_next
    if frames is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, frames))
