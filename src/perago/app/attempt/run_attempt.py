"""The spine: one attempt of one task, from what was polled to what Conductor accepted.

The order of steps is the specification's; what each step decides is the domain's. One except
turns whatever ended the attempt into a status, one pass cleans, nothing else is caught here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.app.attempt.check_attempt import check_attempt
from perago.app.attempt.clean_up import clean_up
from perago.app.attempt.complete import Recorded, complete
from perago.app.attempt.decide import SettledDecision, decide
from perago.app.attempt.dispatch import Dispatch, Scope, Traces
from perago.app.attempt.find_ground import find_ground
from perago.app.attempt.local_steps import (
    call_body,
    check_workspace,
    materialise,
    warn_of_dropped_writes,
)
from perago.app.attempt.publish import publish
from perago.app.attempt.resume import (
    Finished,
    find_decision_on_other_input,
    finish_decision,
    resume,
)
from perago.app.attempt.stage import stage_changes, stage_nothing
from perago.app.attempt.task_output import (
    failed_update,
    free_output,
    read_input,
    workspace_output,
)
from perago.app.attempt.world import World
from perago.domain.attempt import AttemptStatus
from perago.domain.publication_policy import Level
from perago.domain.sync_plan import SyncPlan
from perago.ports.lease import Lease
from perago.ports.progress import Phase
from perago.ports.task_queue import TerminalUpdate
from perago.ports.workspace_pipeline import Materialised


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """How an attempt ended, and whether Conductor counted it."""

    update: TerminalUpdate | None
    recorded: Recorded
    error: Exception | None = None


async def run_attempt(world: World, dispatch: Dispatch, lease: Lease) -> AttemptReport:
    """Run one attempt to its end; only cancellation and death pass through."""
    traces = Traces()
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
        update = failed_update(dispatch, caught)
    recorded = await _tell_conductor(world, dispatch, update, lease)
    if traces.decided and recorded is Recorded.RECORDED and error is None:
        traces.staging_may_go = True
    await clean_up(world, traces)
    ended = {"status": update.status if update else "not sent", "recorded": recorded}
    world.progress.phase(Phase.ENDED, ended)
    return AttemptReport(update, recorded, error)


async def _tell_conductor(
    world: World, dispatch: Dispatch, update: TerminalUpdate | None, lease: Lease
) -> Recorded:
    """Nothing is sent for a row that another execution holds: it would end that one."""
    if update is None:
        await lease.end()
        return Recorded.SUPERSEDED
    return await complete(world, dispatch, update, lease)


async def _produce_output(world: World, dispatch: Dispatch, traces: Traces) -> Mapping[str, object]:
    """The output of a completed attempt; whatever goes wrong is raised."""
    given = read_input(dispatch)
    if given.workspace is None or dispatch.task.workspace is None:
        result = await call_body(world, dispatch, given.params, None)
        return free_output(dispatch, result)
    if dispatch.task.workspace.read_only:
        await world.lakefs.places.check(given.reference, writes=False)
        directory, materialised = await materialise(world, dispatch, traces, given.reference)
        result = await _body_between_guardrails(world, dispatch, given.params, directory)
        await warn_of_dropped_writes(world, materialised)
        return workspace_output(dispatch, given, Finished(given.reference.ref, result))
    _, footing = await world.concurrency.together(
        world.lakefs.places.check(given.reference, writes=True),
        find_ground(world, dispatch, given.reference, dispatch.task.workspace),
    )
    scope = Scope(dispatch, footing.ground, traces)
    finished = await find_decision_on_other_input(world, scope)
    if footing.decided is not None:
        finished = await resume(world, scope, footing.decided)
    if finished is None:
        finished = await _produce_publication(world, scope, given.params)
    return workspace_output(dispatch, given, finished)


async def _produce_publication(
    world: World, scope: Scope, params: Mapping[str, object]
) -> Finished:
    """Download, body, compare, stage, decide, publish."""
    dispatch, traces = scope.dispatch, scope.traces
    directory, materialised = await materialise(world, dispatch, traces, scope.ground.workspace)
    result = await _body_between_guardrails(world, dispatch, params, directory)
    await world.directories.check(directory, dispatch.execution_id)
    plan = await world.lakefs.pipeline.plan(materialised)
    world.progress.phase(
        Phase.COMPARED,
        {"upload": len(plan.upload), "copy": len(plan.copy), "delete": len(plan.delete)},
    )
    if scope.ground.level is Level.SETTLED:
        mine = await _propose(world, scope, materialised, plan, result)
        return await finish_decision(world, scope, await decide(world, scope, mine))
    staged = None
    if not plan.is_empty:
        await check_attempt(world, dispatch)
        staged = await stage_changes(world, scope, materialised, plan, result)
    publication = await publish(world, scope, staged)
    return Finished(publication.ref, result)


async def _propose(
    world: World,
    scope: Scope,
    materialised: Materialised,
    plan: SyncPlan,
    result: Mapping[str, object],
) -> SettledDecision:
    """Stage this attempt's own candidate for the decision."""
    if plan.is_empty:
        staged = await stage_nothing(world, scope, result)
        return SettledDecision(staged, noop=True, result=result)
    await check_attempt(world, scope.dispatch)
    staged = await stage_changes(world, scope, materialised, plan, result)
    return SettledDecision(staged, noop=False, result=result)


async def _body_between_guardrails(
    world: World, dispatch: Dispatch, params: Mapping[str, object], directory: Path
) -> Mapping[str, object]:
    """Guardrails, body, guardrails."""
    await check_workspace(world, dispatch, directory, "pre")
    result = await call_body(world, dispatch, params, directory)
    await check_workspace(world, dispatch, directory, "post")
    return result
