"""The confirm: read the head, decide, check the attempt, act, settle. Bounded rounds of that.

The head is read before the attempt fence and the effect follows at once; the other order loses
accepted publications. Which effect is the domain's decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perago.app.attempt.check_attempt import check_attempt
from perago.app.attempt.check_publication import check_publication
from perago.app.attempt.dispatch import Scope
from perago.app.attempt.perform import perform, prepare
from perago.app.attempt.read_target import read_facts
from perago.app.attempt.settle import settle, unknown_outcome
from perago.app.attempt.world import World
from perago.domain.errors import PublicationRefusedError
from perago.domain.outcome import NotPublished, Published
from perago.domain.publication_effects import Adopt, Keep
from perago.domain.publication_facts import Isolation
from perago.domain.publication_plan import (
    WorkspacePublicationPlan,
    build_workspace_publication_plan,
)
from perago.domain.publication_policy import Policy
from perago.domain.references import NO_METADATA, CommitId, FirstParentWalk, StagedReference
from perago.domain.settled import start_anew
from perago.domain.settling import ROUNDS_MAX, LookAgain, Unanswered
from perago.ports.errors import WorldError
from perago.ports.progress import Phase

PAUSE_SECONDS_MIN = 0.02
PAUSE_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Publication:
    """What is on the target now; `metadata` is that of an adopted commit."""

    ref: CommitId
    effect: str
    adopted: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Pending:
    """A merge of `settled` that nobody answered: it may be there, it may still come."""

    plan: WorkspacePublicationPlan
    reason: str


async def publish(
    world: World,
    scope: Scope,
    staged: StagedReference | None,
    walk: FirstParentWalk | None = None,
) -> Publication:
    """Bring the staged commit (or a no-op) to its end on the target branch.

    `walk` is a first look that was made before; later rounds look for themselves.
    Raises PublishFenceError when the head cannot be explained, StaleAttemptError when the
    attempt no longer counts, OutcomeUnknownAtDeadlineError when nobody can tell.
    """
    deadline = world.clock.monotonic() + scope.effect_seconds
    seen, pending = "no round was finished", None
    for number in range(ROUNDS_MAX):
        ended = await _turn(world, scope, staged, pending, walk if number == 0 else None)
        if isinstance(ended, Publication):
            facts = {"ref": ended.ref, "effect": ended.effect, "rounds": number + 1}
            world.progress.phase(Phase.PUBLISHED, facts)
            return ended
        seen = ended.reason
        if isinstance(ended, Pending):
            if pending is None:  # the merge may have taken all the time there was
                deadline = world.clock.monotonic() + scope.effect_seconds
            pending = ended
        if world.clock.monotonic() >= deadline:
            break
        await _pause(world, number)
    if pending is not None:
        raise unknown_outcome(
            world, scope, pending.plan, f"the head was {pending.plan.base}; {seen}"
        )
    raise PublicationRefusedError(f"the target did not come to rest: {seen}", code="PRG-F007")


async def _turn(
    world: World,
    scope: Scope,
    staged: StagedReference | None,
    pending: Pending | None,
    walk: FirstParentWalk | None,
) -> Publication | LookAgain | Pending:
    """One round; under prefix isolation one publisher of this process at a time.

    While a merge is pending a failed look is a look that saw nothing.
    """
    place = scope.ground.workspace
    try:
        if scope.ground.isolation is not Isolation.PREFIX:
            return await _round(world, scope, staged, walk)
        async with world.concurrency.turn(f"{place.repository}/{place.branch}"):
            return await _round(world, scope, staged, walk)
    except WorldError as error:
        if pending is None:
            raise
        return LookAgain(str(error))


async def _round(
    world: World, scope: Scope, staged: StagedReference | None, walk: FirstParentWalk | None
) -> Publication | LookAgain | Pending:
    """One look, one decision, one effect."""
    facts = await read_facts(world, scope, staged, walk)
    plan = build_workspace_publication_plan(scope.ground.level, facts, scope.identity)
    match plan.effect:
        case Adopt(record):
            return Publication(record.commit, Adopt.__name__, record.metadata)
        case Keep(ref):
            await check_attempt(world, scope.dispatch)
            return Publication(ref, Keep.__name__)
        case _:
            prepared = await prepare(world, scope, plan)
            if isinstance(prepared, LookAgain):
                return prepared
            await check_attempt(world, scope.dispatch)
            return await _act(world, scope, plan, prepared)


async def _act(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, prepared: CommitId
) -> Publication | LookAgain | Pending:
    """Perform the effect and settle it; an unanswered one keeps the staging branch."""
    after = await perform(world, scope, plan, prepared)
    if isinstance(after, Unanswered):
        if plan.policy is Policy.SETTLED:
            # The next round finds it, whoever sent it, or sends the same merge again.
            return Pending(plan, after.reason)
        after = await settle(world, scope, plan, prepared, after)
    match after:
        case Published(ref):
            await check_publication(world, scope, plan, ref, prepared=prepared)
            return Publication(ref, type(plan.effect).__name__)
        case LookAgain():
            return after
        case NotPublished(code, reason, is_of_the_commit):
            # Under `settled` a retry sends the decided commit again; else it makes a new one.
            terminal = is_of_the_commit and plan.policy is Policy.SETTLED
            more = f"; {start_anew(plan.repository, plan.branch)}" if terminal else ""
            raise PublicationRefusedError(f"{reason}{more}", code=code, terminal=terminal)
        case _:
            assert_never(after)


async def _pause(world: World, number: int) -> None:
    """A growing, jittered pause: losers of a race spread out."""
    ceiling = min(PAUSE_SECONDS_MIN * 2**number, PAUSE_SECONDS_MAX)
    await world.clock.sleep(ceiling * world.identities.fraction())
