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
from perago.app.attempt.effects import PlannedEffect, unknown_outcome
from perago.app.attempt.patience import LAKEFS, WorkTime
from perago.app.attempt.stage import find_removed
from perago.domain.commit_metadata import STAGING_COMMIT
from perago.domain.errors import PublicationRefusedError
from perago.domain.lakefs import NO_METADATA, CommitId, FirstParentWalk, StagedReference
from perago.domain.outcome import NotPublished, Published
from perago.domain.paths import ACTIONS_PREFIX, listing_prefix
from perago.domain.policy import build_workspace_publication_plan
from perago.domain.publication import EFFECT_LABELS, Adopt, Isolation, Keep, PublicationFacts
from perago.domain.run import start_anew
from perago.domain.settled import ROUNDS_MAX, LookAgain, Unanswered
from perago.ports.errors import ServiceError
from perago.ports.workspace import Phase

WAITED = LookAgain("a service was away after the head had been read")
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
    target: Target, staged: StagedReference | None, walk: FirstParentWalk | None = None
) -> Publication:
    """Bring the staged commit (or a no-op) to its end on the target branch.

    `walk` is a first look that was made before; later rounds look for themselves.
    Raises PublishFenceError when the head cannot be explained, StaleAttemptError when the
    attempt no longer counts, OutcomeUnknownAtDeadlineError when time is over and neither is known.
    """
    removed = None
    if staged is not None and target.level.shape.reads_removed:
        # Once, before the rounds: commits do not change, and a round that takes long loses races.
        removed = await find_removed(target, staged.commit)
    publishing = _Publishing(target, staged, removed, walk)
    return await publish_in_rounds(target.attempt, publishing.one_round)


@dataclass(frozen=True, slots=True)
class _Publishing:
    """A staged commit, None when nothing changed, on its way to the target.

    `removed` is what it removes, if the policy asks; `walk` the look of the first round.
    """

    target: Target
    staged: StagedReference | None
    removed: str | None
    walk: FirstParentWalk | None

    async def one_round(self, number: int) -> RoundEnd:
        """Under prefix isolation a loser starts anew, so publishers of this process take turns."""
        walk, workspace = self.walk if number == 0 else None, self.target.workspace
        if self.target.isolation is not Isolation.PREFIX:
            return await self._round(walk)
        async with self.target.ports.concurrency.turn(f"{workspace.repository}/{workspace.branch}"):
            return await self._round(walk)

    async def _round(self, walk: FirstParentWalk | None) -> RoundEnd:
        """One look, one decision, one effect.

        After a wait the look is an old one: a head that was read before it must not be relocated.
        """
        target, patience = self.target, self.target.ports.patience
        waits = patience.waits
        facts = await self._read_facts(walk)
        plan = build_workspace_publication_plan(target.level, facts, target.identity)
        match plan.effect:
            case Adopt(record):
                return Publication(record.commit, EFFECT_LABELS[Adopt], record.metadata)
            case Keep(ref):
                await check_attempt(target.attempt)
                if patience.waits != waits:
                    return WAITED
                return Publication(ref, EFFECT_LABELS[Keep])
            case _:
                effect = PlannedEffect(target, plan)
                prepared = await effect.prepare()
                if isinstance(prepared, LookAgain):
                    return prepared
                await check_attempt(target.attempt)
                if patience.waits != waits:
                    return WAITED
                return await _act(effect, prepared)

    async def _read_facts(self, walk: FirstParentWalk | None) -> PublicationFacts:
        """Read the head, its history down to the input, and under prefix isolation what moved."""
        target = self.target
        walk = walk or await read_walk(target)
        moved = walk.reached and walk.head.commit != target.workspace.ref
        untouched = False
        if target.isolation is Isolation.PREFIX and moved:
            untouched = await self._is_untouched(walk.head.commit)
        return PublicationFacts(
            workspace=target.workspace,
            walk=walk,
            staged=self.staged,
            logical_task_key=target.attempt.row.logical_task_key,
            execution_key=target.key,
            isolation=target.isolation,
            untouched=untouched,
            removed=self.removed,
            require_ownership=target.attempt.settings.require_ownership,
        )

    async def _is_untouched(self, head: CommitId) -> bool:
        """Whether neither the prefix nor anything reserved differs between input and head."""
        target, diff = self.target, self.target.ports.lakefs.commits.diff_page
        workspace = target.workspace
        differs = partial(diff, workspace.repository, workspace.ref, head, amount=1)
        mine, reserved = await target.ports.concurrency.together(
            differs(prefix=listing_prefix(target.prefix)), differs(prefix=ACTIONS_PREFIX)
        )
        return not (mine.items or reserved.items)


async def _act(effect: PlannedEffect, prepared: CommitId) -> RoundEnd:
    """Perform the effect and settle it; an unanswered one keeps the staging branch."""
    plan, after = effect.plan, await effect.perform(prepared)
    if isinstance(after, Unanswered):
        if plan.level.shape.decides_by_tag:
            # The next round finds it, whoever sent it, or sends the same merge again.
            return Pending(plan.base, plan.staged, after.reason)
        after = await effect.settle(prepared, after)
    match after:
        case Published(ref):
            await effect.check(ref, prepared)
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


async def read_first_walk(target: Target) -> FirstParentWalk | None:
    """The look that can be made beside the decision: the fence compares its head in the server.

    Under prefix isolation the publishers of one branch take turns, and each looks in its own.
    """
    if target.isolation is Isolation.PREFIX:
        return None
    return await read_walk(target)


async def read_walk(target: Target) -> FirstParentWalk:
    """The target's head and its history down to the input, as far as the policy looks."""
    workspace, lakefs = target.workspace, target.ports.lakefs
    commits_read_max = target.level.shape.commits_read_max
    if commits_read_max == 1:
        head = await lakefs.branches.head(workspace.repository, workspace.branch)
        return FirstParentWalk((head,), reached=head.commit == workspace.ref)
    return await lakefs.commits.first_parents(
        workspace.repository, workspace.branch, workspace.ref, commits_max=commits_read_max
    )


async def publish_in_rounds(
    attempt: Attempt, one_round: Callable[[int], Awaitable[RoundEnd]]
) -> Publication:
    """Rounds until there is a publication; `perago.finish` publishes a run in the same way."""
    ports = attempt.ports
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
        unknown = unknown_outcome(attempt, pending.expected_head, pending.staged, text)
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
    target: Target, decision: SettledDecision, walk: FirstParentWalk | None = None
) -> Finished:
    """Publish the decision, or adopt the publication that is already there.

    `walk` is the target as it was read beside the decision, if it was.
    """
    staged = None if decision.noop else decision.staged
    publication = await publish(target, staged, walk)
    return Finished(publication.ref, await _result(target, decision, publication))


async def _result(
    target: Target, decision: SettledDecision, publication: Publication
) -> Mapping[str, object]:
    """The result of what is on the target: an adopted commit may be of an older decision."""
    staged = publication.adopted.get(STAGING_COMMIT, decision.staged.commit)
    if staged == decision.staged.commit:
        return decision.result
    workspace = target.workspace
    record = await target.ports.lakefs.commits.read(workspace.repository, staged)
    return (await decision_of(target, record, input_ref=workspace.ref)).result
