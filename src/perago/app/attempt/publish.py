"""The confirm: read the head, decide, check the attempt, act, settle. Bounded rounds of that.

The head is read before the attempt fence and the effect follows at once; the other order loses
accepted publications. Which effect is the domain's decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perago.app.attempt.check_attempt import check_attempt
from perago.app.attempt.dispatch import Scope
from perago.app.attempt.perform import check_publication, perform, prepare
from perago.app.attempt.read_target import read_facts
from perago.app.attempt.settle import settle
from perago.app.attempt.world import World
from perago.domain.errors import OutcomeUnknownAtDeadlineError, PublicationRefusedError
from perago.domain.outcome import NotPublished, Published
from perago.domain.publication_effects import Adopt, Keep
from perago.domain.publication_facts import Isolation
from perago.domain.publication_plan import (
    WorkspacePublicationPlan,
    build_workspace_publication_plan,
)
from perago.domain.publication_policy import Policy
from perago.domain.references import NO_METADATA, CommitId, StagedReference
from perago.domain.settling import ROUNDS_MAX, LookAgain, SendAgain, Unanswered
from perago.ports.progress import Phase

PAUSE_SECONDS_MIN = 0.02
PAUSE_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Publication:
    """What is on the target now; `metadata` is that of an adopted commit."""

    ref: CommitId
    effect: str
    adopted: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


async def publish(world: World, scope: Scope, staged: StagedReference | None) -> Publication:
    """Bring the staged commit (or a no-op) to its end on the target branch.

    Raises PublishFenceError when the head cannot be explained, StaleAttemptError when the
    attempt no longer counts, OutcomeUnknownAtDeadlineError when nobody can tell.
    """
    deadline = world.clock.monotonic() + scope.effect_seconds
    place = scope.ground.workspace
    seen: LookAgain | Unanswered = LookAgain("no round was finished")
    for number in range(ROUNDS_MAX):
        if scope.ground.isolation is Isolation.PREFIX:
            async with world.concurrency.turn(f"{place.repository}/{place.branch}"):
                ended = await _round(world, scope, staged)
        else:
            ended = await _round(world, scope, staged)
        if isinstance(ended, Publication):
            facts = {"ref": ended.ref, "effect": ended.effect, "rounds": number + 1}
            world.progress.phase(Phase.PUBLISHED, facts)
            return ended
        seen = ended
        if world.clock.monotonic() >= deadline:
            break
        await _pause(world, number)
    if isinstance(seen, Unanswered):
        scope.traces.staging_may_go = False
        raise OutcomeUnknownAtDeadlineError(seen.reason)
    text = f"the target did not come to rest: {seen.reason}"
    raise PublicationRefusedError(text, code="PRG-F007")


async def _round(
    world: World, scope: Scope, staged: StagedReference | None
) -> Publication | LookAgain | Unanswered:
    """One look, one decision, one effect."""
    facts = await read_facts(world, scope, staged)
    plan = build_workspace_publication_plan(scope.ground.level, facts, scope.identity)
    match plan.effect:
        case Adopt(record):
            return Publication(record.commit, "adopt", record.metadata)
        case Keep(ref):
            await check_attempt(world, scope.dispatch)
            return Publication(ref, "keep")
        case _:
            prepared = await prepare(world, scope, plan)
            await check_attempt(world, scope.dispatch)
            return await _act(world, scope, plan, prepared)


async def _act(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, prepared: CommitId
) -> Publication | LookAgain | Unanswered:
    """Perform the effect and settle it; an unanswered one keeps the staging branch."""
    while True:
        after = await perform(world, scope, plan, prepared)
        match after:
            case Published(ref):
                await check_publication(world, scope, plan, ref, prepared=prepared)
                return Publication(ref, type(plan.effect).__name__)
            case LookAgain():
                return after
            case NotPublished(code, reason):
                raise PublicationRefusedError(reason, code=code)
            case Unanswered():
                if plan.policy is Policy.SETTLED:
                    return after  # the next round finds it, or sends the same merge again
                settled = await settle(world, scope, plan, after)
                if isinstance(settled, SendAgain):
                    continue
                await check_publication(world, scope, plan, settled.ref, prepared=prepared)
                return Publication(settled.ref, type(plan.effect).__name__)
            case _:
                assert_never(after)


async def _pause(world: World, number: int) -> None:
    """A growing, jittered pause: losers of a race spread out."""
    ceiling = min(PAUSE_SECONDS_MIN * 2**number, PAUSE_SECONDS_MAX)
    await world.clock.sleep(ceiling * world.identities.fraction())
