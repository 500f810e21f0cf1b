"""Settling an unanswered effect of the documents' policies by looking at the target.

Under a policy that decides by a tag this is not needed: the next round of `publish` finds the
publication by its key, or sends the same merge again.
"""

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.effects import send_merge
from perago.app.attempt.patience import WorkTime
from perago.domain.errors import (
    OUTCOME_UNKNOWN,
    OutcomeUnknownAtDeadlineError,
    PublicationRefusedError,
)
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.logical_execution import CommitId, StagedReference
from perago.domain.outcome import NotPublished, Published
from perago.domain.policy import WorkspacePublicationPlan
from perago.domain.publication import Relocate
from perago.domain.settled import (
    LOOKS_MAX,
    AfterLook,
    KeepLooking,
    SendAgain,
    Unanswered,
    look_after_merge,
    look_after_relocation,
)
from perago.ports.errors import ServiceError
from perago.ports.workspace import Phase

# Short at first, because the other publishers of this process wait for the branch. With this factor
# the fifteenth look is past the usual deadline of 60 s; twenty (LOOKS_MAX) serve longer ones too.
FIRST_PAUSE_SECONDS = 0.05
PAUSE_FACTOR = 1.6


async def settle(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    plan: WorkspacePublicationPlan,
    prepared: CommitId,
    unanswered: Unanswered,
) -> Published:
    """Conclude, or raise OutcomeUnknownAtDeadlineError with the evidence.

    Until it is concluded nothing is cleaned: the effect may still land. The last look is at the
    deadline itself.
    """
    attempt.leftovers.staging_may_go = False
    time = WorkTime(ports.patience, ports.clock, attempt.effect_seconds)
    seen = unanswered.reason
    pause = FIRST_PAUSE_SECONDS
    for _ in range(LOOKS_MAX):
        after = await _look(ports, attempt, target, plan)
        seen = after.reason if isinstance(after, KeepLooking) else seen
        left = time.left
        if isinstance(after, SendAgain):
            seen = f"the head is still {plan.base}"
            if left > 0:
                after = await _send_again(ports, plan, prepared, left)
        if isinstance(after, Published):
            attempt.leftovers.staging_may_go = True
            return after
        if isinstance(after, NotPublished):
            attempt.leftovers.staging_may_go = True
            raise PublicationRefusedError(after.reason, code=after.code)
        if left <= 0:
            break
        await ports.clock.sleep(min(pause, max(time.left, 0.0)))
        pause *= PAUSE_FACTOR
    raise unknown_outcome(ports, attempt, plan.base, plan.staged, seen)


async def _send_again(
    ports: AttemptPorts, plan: WorkspacePublicationPlan, prepared: CommitId, seconds: float
) -> AfterLook:
    """The same merge once more, under the fence: at most one can win.

    Only success is an answer to both: whatever refuses this one says nothing of the first.
    """
    try:
        after = await send_merge(ports, plan, prepared, timeout_seconds=seconds)
    except ServiceError as error:
        return KeepLooking(str(error))
    return after if isinstance(after, Published) else KeepLooking(after.reason)


async def _look(
    ports: AttemptPorts, attempt: Attempt, target: Target, plan: WorkspacePublicationPlan
) -> AfterLook:
    """One look at the target; a failed look is a look that saw nothing.

    A later attempt may have published on top of ours meanwhile. So the look goes below the head,
    also under a policy that decides by the head alone.
    """
    address, bound = target.workspace, FIRST_PARENT_COMMITS_MAX + 1
    try:
        walk = await ports.lakefs.commits.first_parents(
            address.repository, address.branch, address.ref, commits_max=bound
        )
    except ServiceError as error:
        return KeepLooking(str(error))
    if isinstance(plan.effect, Relocate):
        to, abandoned = plan.effect.to, plan.effect.abandoned
        return look_after_relocation(walk.head.commit, old_head=abandoned, target=to)
    return look_after_merge(
        walk,
        expected_head=plan.base,
        execution_id=attempt.execution_id,
        fenced=plan.level.fenced,
    )


def unknown_outcome(
    ports: AttemptPorts,
    attempt: Attempt,
    expected_head: CommitId,
    staged: StagedReference | CommitId | None,
    seen: str,
) -> OutcomeUnknownAtDeadlineError:
    """Log the evidence and keep every branch, because an operator who looks later needs both."""
    attempt.leftovers.staging_may_go = False
    attempt.leftovers.outcome_unknown = True
    evidence = {
        "warning": OUTCOME_UNKNOWN,
        "expected_head": expected_head,
        "seen": seen,
        "staged": staged,
    }
    ports.progress.phase(Phase.WARNED, evidence)
    return OutcomeUnknownAtDeadlineError(seen)
