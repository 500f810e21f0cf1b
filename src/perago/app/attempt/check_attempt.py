"""The attempt fence as a step: read afresh, compare, stop when this attempt no longer counts."""

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.world import World
from perago.domain.attempt_fence import (
    FenceVerdict,
    FenceWidth,
    Stale,
    compare_narrow,
    compare_row,
    compare_wide,
)
from perago.domain.errors import StaleAttemptError
from perago.ports.progress import Phase


async def check_attempt(world: World, dispatch: Dispatch) -> None:
    """Raise StaleAttemptError unless Conductor still counts this attempt."""
    verdict = await read_verdict(world, dispatch)
    if isinstance(verdict, Stale):
        raise StaleAttemptError(dispatch.attempt.task_id, stale=verdict)
    world.progress.phase(Phase.FENCED, {"width": dispatch.settings.fence_width})


async def read_verdict(world: World, dispatch: Dispatch) -> FenceVerdict:
    """One request: the workflow with its rows, or the one row."""
    polled = dispatch.attempt
    if dispatch.settings.fence_width is FenceWidth.WIDE:
        return compare_wide(polled, await world.queue.read_workflow(polled.workflow_id))
    fresh = await world.queue.read_attempt(polled.workflow_id, polled.task_id)
    return compare_narrow(polled, None if fresh is None else fresh.snapshot)


async def read_verdict_before_end(world: World, dispatch: Dispatch) -> FenceVerdict:
    """The same question before a terminal update, which names nothing but the task id.

    The narrow fence of the documents would let a rerun of the row pass, so every fact of the row
    is compared here.
    """
    polled = dispatch.attempt
    if dispatch.settings.fence_width is FenceWidth.WIDE:
        return await read_verdict(world, dispatch)
    fresh = await world.queue.read_attempt(polled.workflow_id, polled.task_id)
    return compare_row(polled, None if fresh is None else fresh.snapshot)
