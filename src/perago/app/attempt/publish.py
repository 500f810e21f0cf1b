"""Rounds of looking, deciding and acting until the target shows the commit, and what was made.

The publication stands whatever the look at it finds; what is found ends the attempt.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, assert_never

from perago.app.attempt.agree import SettledDecision, decision_of
from perago.app.attempt.complete import check_attempt
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.effects import perform, prepare
from perago.app.attempt.facts import ToPublish, read_facts
from perago.app.attempt.patience import LAKEFS, WorkTime
from perago.app.attempt.settle import settle, unknown_outcome
from perago.app.attempt.stage import ExpectedMerge, check_merge, find_removed
from perago.domain.commit_metadata import STAGING_COMMIT
from perago.domain.errors import PublicationRefusedError
from perago.domain.logical_execution import (
    NO_METADATA,
    CommitId,
    FirstParentWalk,
    StagedReference,
)
from perago.domain.outcome import NotPublished, Published
from perago.domain.policy import WorkspacePublicationPlan, build_workspace_publication_plan
from perago.domain.publication import EFFECT_LABELS, Adopt, Isolation, Keep, Relocate
from perago.domain.settled import ROUNDS_MAX, LookAgain, Unanswered, start_anew
from perago.ports.errors import ServiceError
from perago.ports.workspace import Phase

WAITED = LookAgain("a service was away after the head had been read")


async def check_publication(
    ports: AttemptPorts,
    target: Target,
    plan: WorkspacePublicationPlan,
    ref: CommitId,
    *,
    prepared: CommitId,
) -> None:
    """After a merge under the fence: its parent must be the expected head."""
    if isinstance(plan.effect, Relocate) or not plan.level.fenced:
        return
    tree_of = prepared if target.isolation is Isolation.PREFIX else None
    # Under `settled` terminal: a retry would find the publication by its key, and hide this.
    terminal = plan.level.shape.decides_by_tag
    expected = ExpectedMerge(plan.repository, plan.branch, (plan.base,), tree_of, terminal)
    await check_merge(ports, ref, expected)


# Between two rounds. Short at first, because a refused merge costs lakeFS 3 ms; publishers of one
# process queue, so only those of others are let pass. With 1 s, 40 rounds (ROUNDS_MAX) take less
# than a minute of pauses.
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
    """A merge without an answer: it may be there, or it may still arrive."""

    expected_head: CommitId
    staged: StagedReference | CommitId | None
    reason: str


RoundEnd: TypeAlias = Publication | LookAgain | Pending


async def publish(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    staged: StagedReference | None,
    walk: FirstParentWalk | None = None,
) -> Publication:
    """Bring the staged commit (or a no-op) to its end on the target branch.

    `walk` is a first look that was made before; later rounds look for themselves.
    Raises PublishFenceError when the head cannot be explained, StaleAttemptError when the
    attempt no longer counts, OutcomeUnknownAtDeadlineError when time is over and neither is known.
    """
    removed = None
    if staged is not None and target.level.shape.reads_removed:
        # Once, before the rounds: commits do not change, and a round that takes long loses races.
        removed = await find_removed(ports, target, staged.commit)
    new, workspace = ToPublish(staged, removed), target.workspace

    async def one_round(number: int) -> RoundEnd:
        first = walk if number == 0 else None
        if target.isolation is not Isolation.PREFIX:
            return await _round(ports, attempt, target, new, first)
        # Under prefix isolation a loser starts anew, so publishers of this process take turns.
        async with ports.concurrency.turn(f"{workspace.repository}/{workspace.branch}"):
            return await _round(ports, attempt, target, new, first)

    return await publish_in_rounds(ports, attempt, one_round)


async def publish_in_rounds(
    ports: AttemptPorts, attempt: Attempt, one_round: Callable[[int], Awaitable[RoundEnd]]
) -> Publication:
    """Rounds until there is a publication; `perago.finish` publishes a run in the same way."""
    time = WorkTime(ports.patience, ports.clock, attempt.effect_seconds)
    seen, pending = "no round was finished", None
    for number in range(ROUNDS_MAX):
        ended = await _one(ports, partial(one_round, number), is_pending=pending is not None)
        if isinstance(ended, Publication):
            facts = {"ref": ended.ref, "effect": ended.effect, "rounds": number + 1}
            ports.progress.phase(Phase.PUBLISHED, facts)
            return ended
        seen = ended.reason
        if isinstance(ended, Pending):
            if pending is None:  # the merge may have taken all the time there was
                time = WorkTime(ports.patience, ports.clock, attempt.effect_seconds)
            pending = ended
        if time.left <= 0:
            break
        await _pause_after(ports, number)
    if pending is not None:
        text = f"the head was {pending.expected_head}; {seen}"
        unknown = unknown_outcome(ports, attempt, pending.expected_head, pending.staged, text)
        unknown.cause = ports.patience.ended_by  # whoever goes on finds the decision
        raise unknown
    text = f"other writers kept moving the target branch: {seen}"
    raise PublicationRefusedError(text, code="PRG-F007")


async def _one(
    ports: AttemptPorts, one_round: Callable[[], Awaitable[RoundEnd]], *, is_pending: bool
) -> RoundEnd:
    """One round. While a merge is pending a failed look is a look that saw nothing.

    If lakeFS was away before anything was sent, the next round looks at the head anew, because
    others publish meanwhile.
    """

    async def look() -> LookAgain:
        return LookAgain("lakeFS was away, and nothing was sent")

    try:
        return await ports.patience.until_done(LAKEFS, "the publication", one_round, look)
    except ServiceError as error:
        if not is_pending:
            raise
        return LookAgain(str(error))


async def _round(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    new: ToPublish,
    walk: FirstParentWalk | None,
) -> RoundEnd:
    """One look, one decision, one effect.

    After a wait the look is an old one: a head that was read before it must not be relocated.
    """
    waits = ports.patience.waits
    facts = await read_facts(ports, attempt, target, new, walk)
    plan = build_workspace_publication_plan(target.level, facts, target.identity(attempt))
    match plan.effect:
        case Adopt(record):
            return Publication(record.commit, EFFECT_LABELS[Adopt], record.metadata)
        case Keep(ref):
            await check_attempt(ports, attempt)
            if ports.patience.waits != waits:
                return WAITED
            return Publication(ref, EFFECT_LABELS[Keep])
        case _:
            prepared = await prepare(ports, attempt, target, plan)
            if isinstance(prepared, LookAgain):
                return prepared
            await check_attempt(ports, attempt)
            if ports.patience.waits != waits:
                return WAITED
            return await _act(ports, attempt, target, plan, prepared)


async def _act(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    plan: WorkspacePublicationPlan,
    prepared: CommitId,
) -> RoundEnd:
    """Perform the effect and settle it; an unanswered one keeps the staging branch."""
    after = await perform(ports, attempt, plan, prepared)
    if isinstance(after, Unanswered):
        if plan.level.shape.decides_by_tag:
            # The next round finds it, whoever sent it, or sends the same merge again.
            return Pending(plan.base, plan.staged, after.reason)
        after = await settle(ports, attempt, target, plan, prepared, after)
    match after:
        case Published(ref):
            await check_publication(ports, target, plan, ref, prepared=prepared)
            return Publication(ref, EFFECT_LABELS[type(plan.effect)])
        case LookAgain():
            return after
        case NotPublished(code, reason, is_of_the_commit):
            # Under `settled` a retry sends the decided commit again; else it makes a new one.
            terminal = is_of_the_commit and plan.level.shape.decides_by_tag
            more = f"; {start_anew(plan.repository, plan.branch)}" if terminal else ""
            raise PublicationRefusedError(f"{reason}{more}", code=code, terminal=terminal)
        case _:
            assert_never(after)


async def _pause_after(ports: AttemptPorts, number: int) -> None:
    """A growing, jittered pause: losers of a race spread out."""
    ceiling = min(PAUSE_SECONDS_MIN * 2**number, PAUSE_SECONDS_MAX)
    await ports.clock.sleep(ceiling * ports.identities.fraction())


@dataclass(frozen=True, slots=True)
class Finished:
    """The published commit and the result that belongs to it."""

    ref: CommitId
    result: Mapping[str, object]


async def finish_decision(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    decision: SettledDecision,
    walk: FirstParentWalk | None = None,
) -> Finished:
    """Publish the decision, or adopt the publication that is already there.

    `walk` is the target as it was read beside the decision, if it was.
    """
    staged = None if decision.noop else decision.staged
    publication = await publish(ports, attempt, target, staged, walk)
    return Finished(publication.ref, await _result(ports, attempt, target, decision, publication))


async def _result(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    decision: SettledDecision,
    publication: Publication,
) -> Mapping[str, object]:
    """The result of what is on the target: an adopted commit may be of an older decision."""
    staged = publication.adopted.get(STAGING_COMMIT, decision.staged.commit)
    if staged == decision.staged.commit:
        return decision.result
    workspace = target.workspace
    record = await ports.lakefs.commits.read(workspace.repository, staged)
    return (await decision_of(ports, attempt, target, record, input_ref=workspace.ref)).result
