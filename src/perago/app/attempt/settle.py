"""An effect was sent and no answer came: look until it is known, or until the deadline.

`settled` settles in its own rounds, where another attempt's publication counts as well.
"""

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.perform import send_merge
from perago.app.attempt.world import World
from perago.domain.errors import (
    OUTCOME_UNKNOWN,
    OutcomeUnknownAtDeadlineError,
    PublicationRefusedError,
)
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.outcome import NotPublished, Published
from perago.domain.publication_effects import Relocate
from perago.domain.publication_plan import WorkspacePublicationPlan
from perago.domain.references import CommitId
from perago.domain.settling import (
    LOOKS_MAX,
    AfterLook,
    KeepLooking,
    SendAgain,
    Unanswered,
    look_after_merge,
    look_after_relocation,
)
from perago.ports.errors import WorldError
from perago.ports.progress import Phase

FIRST_PAUSE_SECONDS = 0.05
PAUSE_FACTOR = 1.6


async def settle(
    world: World,
    scope: Scope,
    plan: WorkspacePublicationPlan,
    prepared: CommitId,
    unanswered: Unanswered,
) -> Published:
    """Conclude, or raise OutcomeUnknownAtDeadlineError with the evidence.

    Until it is concluded nothing is cleaned: the effect may still land. The last look is at the
    deadline itself.
    """
    scope.traces.staging_may_go = False
    deadline = world.clock.monotonic() + scope.effect_seconds
    seen = unanswered.reason
    pause = FIRST_PAUSE_SECONDS
    for _ in range(LOOKS_MAX):
        after = await _look(world, scope, plan)
        seen = after.reason if isinstance(after, KeepLooking) else seen
        left = deadline - world.clock.monotonic()
        if isinstance(after, SendAgain):
            seen = f"the head is still {plan.base}"
            if left > 0:
                after = await _send_again(world, plan, prepared, left)
        if isinstance(after, Published):
            scope.traces.staging_may_go = True
            return after
        if isinstance(after, NotPublished):
            scope.traces.staging_may_go = True
            raise PublicationRefusedError(after.reason, code=after.code)
        if left <= 0:
            break
        await world.clock.sleep(min(pause, max(deadline - world.clock.monotonic(), 0.0)))
        pause *= PAUSE_FACTOR
    raise unknown_outcome(world, scope, plan, seen)


def unknown_outcome(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, seen: str
) -> OutcomeUnknownAtDeadlineError:
    """Tell the evidence and keep every branch: whoever looks later needs both."""
    scope.traces.staging_may_go = False
    scope.traces.outcome_unknown = True
    evidence = {
        "warning": OUTCOME_UNKNOWN,
        "expected_head": plan.base,
        "seen": seen,
        "staged": plan.staged,
    }
    world.progress.phase(Phase.WARNED, evidence)
    return OutcomeUnknownAtDeadlineError(seen)


async def _send_again(
    world: World, plan: WorkspacePublicationPlan, prepared: CommitId, seconds: float
) -> AfterLook:
    """The same merge once more, under the fence: at most one can win.

    Only success is an answer to both: whatever refuses this one says nothing of the first.
    """
    try:
        after = await send_merge(world, plan, prepared, timeout_seconds=seconds)
    except WorldError as error:
        return KeepLooking(str(error))
    return after if isinstance(after, Published) else KeepLooking(after.reason)


async def _look(world: World, scope: Scope, plan: WorkspacePublicationPlan) -> AfterLook:
    """One look at the target; a failed look is a look that saw nothing.

    Whatever the policy reads to decide, a publication may stand below somebody else's by now.
    """
    place, bound = scope.ground.workspace, FIRST_PARENT_COMMITS_MAX + 1
    try:
        walk = await world.lakefs.commits.first_parents(
            place.repository, place.branch, place.ref, commits_max=bound
        )
    except WorldError as error:
        return KeepLooking(str(error))
    if isinstance(plan.effect, Relocate):
        to, abandoned = plan.effect.to, plan.effect.abandoned
        return look_after_relocation(walk.head.commit, old_head=abandoned, target=to)
    return look_after_merge(
        walk,
        expected_head=plan.base,
        execution_id=scope.dispatch.execution_id,
        fenced=plan.level.fenced,
    )
