"""An effect was sent and no answer came: look until it is known, or until the deadline.

Only policies that cannot simply send the same merge again come here.
"""

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.world import World
from perago.domain.errors import OutcomeUnknownAtDeadlineError, PublicationRefusedError
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.outcome import NotPublished, Published
from perago.domain.publication_effects import Keep, MergeExactTree, MergeStaged, Relocate
from perago.domain.publication_plan import WorkspacePublicationPlan
from perago.domain.settling import (
    LOOKS_MAX,
    AfterLook,
    KeepLooking,
    SendAgain,
    Unanswered,
    look_after_merge,
    look_after_relocation,
)
from perago.ports.errors import UnavailableError
from perago.ports.progress import Phase

FIRST_PAUSE_SECONDS = 0.05
PAUSE_FACTOR = 1.6


async def settle(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, unanswered: Unanswered
) -> Published | SendAgain:
    """Conclude, or raise OutcomeUnknownAtDeadlineError with the evidence.

    Until it is concluded nothing is cleaned: the effect may still land.
    """
    scope.traces.staging_may_go = False
    deadline = world.clock.monotonic() + scope.effect_seconds
    seen = unanswered.reason
    pause = FIRST_PAUSE_SECONDS
    for _ in range(LOOKS_MAX):
        after = await _look(world, scope, plan)
        match after:
            case Published():
                scope.traces.staging_may_go = True
                return after
            case SendAgain():
                return after
            case NotPublished(code, reason):
                scope.traces.staging_may_go = True
                raise PublicationRefusedError(reason, code=code)
            case KeepLooking(reason):
                seen = reason
        if world.clock.monotonic() + pause >= deadline:
            break
        await world.clock.sleep(pause)
        pause *= PAUSE_FACTOR
    evidence = {
        "warning": "publication outcome unknown",
        "expected_head": plan.base,
        "seen": seen,
        "staged": plan.staged,
    }
    world.progress.phase(Phase.WARNED, evidence)
    raise OutcomeUnknownAtDeadlineError(seen)


async def _look(world: World, scope: Scope, plan: WorkspacePublicationPlan) -> AfterLook:
    """One look at the target; a failed look is a look that saw nothing.

    Whatever the policy reads to decide, a publication may stand below somebody else's by now.
    """
    place, bound = scope.ground.workspace, FIRST_PARENT_COMMITS_MAX + 1
    try:
        walk = await world.lakefs.commits.first_parents(
            place.repository, place.branch, place.ref, commits_max=bound
        )
    except UnavailableError as error:
        return KeepLooking(str(error))
    match plan.effect:
        case Relocate(to, abandoned):
            return look_after_relocation(walk.head.commit, old_head=abandoned, target=to)
        case MergeStaged() | MergeExactTree() | Keep() | _:
            return look_after_merge(
                walk,
                expected_head=plan.base,
                execution_id=scope.dispatch.execution_id,
                fenced=plan.level.fenced,
            )
