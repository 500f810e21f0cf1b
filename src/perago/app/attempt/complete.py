"""The end of an attempt in Conductor: send it, then read back whether it counted."""

from enum import StrEnum

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.world import World
from perago.domain.publish_budget import completion_timeout_seconds
from perago.ports.errors import MissingError, OutcomeUnknownError, UnavailableError
from perago.ports.lease import Lease
from perago.ports.progress import Phase
from perago.ports.task_queue import TerminalUpdate

FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0
UPDATES_MAX = 100


class Recorded(StrEnum):
    """What a read after the update said: Conductor answers 200 to everything stale."""

    RECORDED = "recorded"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


async def complete(
    world: World, dispatch: Dispatch, update: TerminalUpdate, lease: Lease
) -> Recorded:
    """Join the heartbeats, send until answered or the deadline, read back.

    A heartbeat beside a terminal update can undo it, hence the join. Sending again is harmless:
    the first accepted update wins and later ones are ignored.
    """
    await lease.end()
    deadline = world.clock.monotonic() + completion_seconds(dispatch)
    pause = FIRST_PAUSE_SECONDS
    for _ in range(UPDATES_MAX):
        recorded = await _send_and_look(world, update, deadline)
        if recorded is not Recorded.UNKNOWN or world.clock.monotonic() + pause >= deadline:
            break
        await world.clock.sleep(pause)
        pause = min(pause * 2, PAUSE_SECONDS_MAX)
    else:
        recorded = Recorded.UNKNOWN
    facts = {"recorded": recorded, "status": update.status, "reason": update.reason}
    world.progress.phase(Phase.COMPLETED, facts)
    return recorded


def completion_seconds(dispatch: Dispatch) -> float:
    """The last beat plus the response time-out, or the budget's limit if that is earlier."""
    limit = completion_timeout_seconds(dispatch.budget)
    lease = dispatch.record.response_timeout_seconds
    return min(limit, float(lease)) if lease > 0 else limit


async def _send_and_look(world: World, update: TerminalUpdate, deadline: float) -> Recorded:
    left = max(deadline - world.clock.monotonic(), 1.0)
    try:
        await world.queue.complete(update, timeout_seconds=left)
    except MissingError:
        return Recorded.SUPERSEDED
    except (OutcomeUnknownError, UnavailableError):
        pass  # only a read can tell
    try:
        fresh = await world.queue.read_attempt(update.attempt.workflow_id, update.attempt.task_id)
    except UnavailableError:
        return Recorded.UNKNOWN
    if fresh is None:
        return Recorded.SUPERSEDED
    mine = fresh.snapshot.worker_id == update.worker_id
    if fresh.snapshot.status is update.status and mine:
        return Recorded.RECORDED
    if fresh.snapshot.status.is_terminal or not mine:
        return Recorded.SUPERSEDED
    return Recorded.UNKNOWN
