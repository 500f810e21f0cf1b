"""The spine: one attempt of one task, from what was polled to what Conductor accepted.

The order of steps is the specification's; what each step decides is the domain's. One except
turns whatever ended the attempt into a status, one pass cleans, nothing else is caught here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perago.app.attempt.choose_target import find_ground, read_first_walk
from perago.app.attempt.complete import Recorded, check_attempt, clean_up, complete
from perago.app.attempt.context import Dispatch, Scope, Traces, World
from perago.app.attempt.local_workspace import call_body
from perago.app.attempt.publish import publish
from perago.app.attempt.resume import (
    Finished,
    failed_update,
    find_decision_on_other_input,
    finish_decision,
    free_output,
    read_input,
    resume,
    workspace_output,
)
from perago.app.attempt.stage import SettledDecision, decide
from perago.app.attempt.workspace_handling import WorkspaceHandling, handle_workspace
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import CompletionRefusedError, StaleAttemptError
from perago.domain.publication import Level
from perago.ports.conductor import TerminalUpdate
from perago.ports.task_body import Lease
from perago.ports.workspace import Phase


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """How an attempt ended, and whether Conductor counted it; no update when none was sent."""

    update: TerminalUpdate | None
    recorded: Recorded
    error: Exception | None = None


def nobody(error: Exception) -> None:
    """For those who need not hear of a failure before Conductor does."""
    del error


async def run_attempt(
    world: World,
    dispatch: Dispatch,
    lease: Lease,
    *,
    polled_at: float | None = None,
    failed: Callable[[Exception], None] = nobody,
) -> AttemptReport:
    """Run one attempt to its end; only cancellation and death pass through.

    `polled_at` is the monotonic time of its poll, now if it is not given: an old attempt reads
    its row before it ends it. `failed` hears of an error before Conductor does, which schedules
    the retry at once.
    """
    traces = Traces()
    began = world.clock.monotonic() if polled_at is None else polled_at
    world.progress.phase(Phase.STARTED, {"task_id": dispatch.attempt.task_id})
    error: Exception | None = None
    update: TerminalUpdate | None
    try:
        output = await _produce_output(world, dispatch, traces)
        update = TerminalUpdate(
            attempt=dispatch.attempt,
            worker_id=dispatch.settings.worker_id,
            status=AttemptStatus.COMPLETED,
            output=output,
        )
    except Exception as caught:  # noqa: BLE001 - every failure becomes the attempt's status
        error = caught
        failed(caught)
        update = failed_update(dispatch, caught)
    report = await _end(
        world, dispatch, AttemptReport(update, Recorded.SUPERSEDED, error), lease, began
    )
    update, recorded, error = report.update, report.recorded, report.error
    if traces.decided and recorded is Recorded.RECORDED and error is None:
        traces.staging_may_go = True
    await clean_up(world, traces)
    ended = {"status": update.status if update else "not sent", "recorded": recorded}
    world.progress.phase(Phase.ENDED, ended)
    return report


async def _end(
    world: World, dispatch: Dispatch, report: AttemptReport, lease: Lease, began: float
) -> AttemptReport:
    """Send the end if there is one to send; what became of it."""
    if report.update is None:
        await lease.end()
        return report
    try:
        recorded = await complete(world, dispatch, report.update, lease, began=began)
    except StaleAttemptError as stale:  # the failure that came first is the one to tell
        return AttemptReport(None, Recorded.SUPERSEDED, report.error or stale)
    except CompletionRefusedError as refused:  # the row waits for an end that can be taken
        failure = failed_update(dispatch, refused)
        failed = AttemptReport(failure, Recorded.UNKNOWN, refused)
        return await _end(world, dispatch, failed, lease, began)
    return AttemptReport(report.update, recorded, report.error)


async def _produce_output(world: World, dispatch: Dispatch, traces: Traces) -> Mapping[str, object]:
    """The output of a completed attempt; whatever goes wrong is raised."""
    given = read_input(dispatch)
    if given.workspace is None or dispatch.task.workspace is None:
        result = await call_body(world, dispatch, given.params, None)
        return free_output(result)
    if dispatch.task.workspace.read_only:
        await world.lakefs.places.check(given.reference, world.concurrency, writes=False)
        handling = handle_workspace(world, dispatch, traces, given.reference, None)
        result = await _body_between_guardrails(handling, given.params)
        await handling.drop_writes()
        return workspace_output(given, Finished(given.reference.ref, result))
    spec = dispatch.task.workspace
    footing = await find_ground(world, dispatch, given.reference, spec, given.params)
    scope, earlier = Scope(dispatch, footing.ground, traces), footing.earlier
    finished = await find_decision_on_other_input(world, scope, given.params, earlier.others)
    if finished is None and earlier.decided is not None:
        finished = await resume(world, scope, earlier.decided)
    if finished is None:
        finished = await _produce_publication(world, scope, given.params)
    return workspace_output(given, finished)


async def _produce_publication(
    world: World, scope: Scope, params: Mapping[str, object]
) -> Finished:
    """Workspace, body, compare, stage, decide, publish."""
    dispatch, ground = scope.dispatch, scope.ground
    handling = handle_workspace(world, dispatch, scope.traces, ground.workspace, scope)
    result = await _body_between_guardrails(handling, params)
    changed = await handling.changed()
    if changed:
        await check_attempt(world, dispatch)
    if ground.level is Level.SETTLED:
        stage = handling.stage_changes if changed else handling.stage_nothing
        mine = SettledDecision(await stage(result), noop=not changed, result=result)
        decision, walk = await world.concurrency.together(
            decide(world, scope, mine), read_first_walk(world, scope)
        )
        return await finish_decision(world, scope, decision, walk)
    staged = await handling.stage_changes(result) if changed else None
    publication = await publish(world, scope, staged)
    return Finished(publication.ref, result)


async def _body_between_guardrails(
    handling: WorkspaceHandling, params: Mapping[str, object]
) -> Mapping[str, object]:
    """Guardrails, body, guardrails."""
    await handling.open()
    await handling.check("pre")
    result = await handling.run_body(params)
    await handling.check("post")
    return result
