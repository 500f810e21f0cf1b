"""What a merge has made is looked at once: does it stand where the fence had to put it?

The publication stands whatever is found; what is found ends the attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perago.app.attempt.agree import SettledDecision, decision_of
from perago.app.attempt.complete import check_attempt
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.effects import perform, prepare, unknown_outcome
from perago.app.attempt.facts import ToPublish, read_facts
from perago.app.attempt.patience import LAKEFS, WorkTime
from perago.app.attempt.settle import settle
from perago.app.attempt.stage import find_removed
from perago.domain.commit_metadata import STAGING_COMMIT
from perago.domain.errors import FenceNotTrustedError, PublicationRefusedError
from perago.domain.logical_execution import (
    NO_METADATA,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    StagedReference,
)
from perago.domain.outcome import NotPublished, Published
from perago.domain.policy import WorkspacePublicationPlan, build_workspace_publication_plan
from perago.domain.publication import EFFECT_LABELS, Adopt, Isolation, Keep, Relocate
from perago.domain.settled import ROUNDS_MAX, LookAgain, Unanswered, start_anew
from perago.ports.errors import ServiceError
from perago.ports.workspace import Phase

DIFFERENCES_NAMED_MAX = 5  # paths are long, and Conductor gets 500 characters of the reason
WAITED = LookAgain("a service was away after the head had been read")


async def check_publication(
    ports: AttemptPorts,
    target: Target,
    plan: WorkspacePublicationPlan,
    ref: CommitId,
    *,
    prepared: CommitId,
) -> None:
    """After a merge under the fence: its parent must be the expected head.

    Anything else means that the server did not run the fence: the publication stands, the
    attempt fails, and the repository counts as unfenced from now on.
    """
    if isinstance(plan.effect, Relocate) or not plan.level.fenced:
        return
    record = await ports.lakefs.commits.read(plan.repository, ref)
    if record.parents != (plan.base,):
        ports.lakefs.trust.distrust(plan.repository)
        text = f"fence did not run: parents of {ref} are {record.parents}, expected {plan.base}"
        raise _failed(plan, text, "PRG-F023")
    if target.isolation is Isolation.PREFIX:
        await check_tree(ports, plan, prepared, record)


async def check_tree(
    ports: AttemptPorts, plan: WorkspacePublicationPlan, prepared: CommitId, published: CommitRecord
) -> None:
    """The published tree is exactly the prepared one: the two metaranges are equal."""
    expected = await ports.lakefs.commits.read(plan.repository, prepared)
    if expected.metarange == published.metarange:
        return
    page = await ports.lakefs.commits.diff_page(
        plan.repository, prepared, published.commit, prefix="", amount=DIFFERENCES_NAMED_MAX
    )
    names = ", ".join(change.path for change in page.changes) + (", ..." if page.more else "")
    text = f"{published.commit} differs from {prepared}, which was to be published, in: {names}"
    raise _failed(plan, text, "PRG-F024")


def _failed(plan: WorkspacePublicationPlan, text: str, code: str) -> FenceNotTrustedError:
    """Under `settled` terminal: a retry would find the publication by its key, and hide this."""
    command = f"`perago fence verify {plan.repository} {plan.branch}`"
    text = f"{text}; the commit stays on the branch: look at it, and run {command}"
    return FenceNotTrustedError(text, code=code, terminal=plan.level.shape.decides_by_tag)


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
    """A merge of `settled` without an answer: it may be there, or it may still arrive."""

    plan: WorkspacePublicationPlan
    reason: str


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
    new = ToPublish(staged, removed)
    time = WorkTime(ports.patience, ports.clock, attempt.effect_seconds)
    seen, pending = "no round was finished", None
    for number in range(ROUNDS_MAX):
        ended = await _turn(ports, attempt, target, new, pending, walk if number == 0 else None)
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
        await pause_after(ports, number)
    if pending is not None:
        text = f"the head was {pending.plan.base}; {seen}"
        unknown = unknown_outcome(ports, attempt, pending.plan, text)
        unknown.cause = ports.patience.ended_by  # whoever goes on finds the decision
        raise unknown
    text = f"other writers kept moving the target branch: {seen}"
    raise PublicationRefusedError(text, code="PRG-F007")


async def _turn(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    new: ToPublish,
    pending: Pending | None,
    walk: FirstParentWalk | None,
) -> Publication | LookAgain | Pending:
    """One round. Under prefix isolation a loser starts anew, so publishers here take turns.

    While a merge is pending a failed look is a look that saw nothing. If lakeFS was away before
    anything was sent, the next round looks at the head anew, because others publish meanwhile.
    """
    workspace = target.workspace

    async def one_round() -> Publication | LookAgain | Pending:
        if target.isolation is not Isolation.PREFIX:
            return await _round(ports, attempt, target, new, walk)
        async with ports.concurrency.turn(f"{workspace.repository}/{workspace.branch}"):
            return await _round(ports, attempt, target, new, walk)

    async def look() -> LookAgain:
        return LookAgain("lakeFS was away, and nothing was sent")

    try:
        return await ports.patience.until_done(LAKEFS, "the publication", one_round, look)
    except ServiceError as error:
        if pending is None:
            raise
        return LookAgain(str(error))


async def _round(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    new: ToPublish,
    walk: FirstParentWalk | None,
) -> Publication | LookAgain | Pending:
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
) -> Publication | LookAgain | Pending:
    """Perform the effect and settle it; an unanswered one keeps the staging branch."""
    after = await perform(ports, attempt, plan, prepared)
    if isinstance(after, Unanswered):
        if plan.level.shape.decides_by_tag:
            # The next round finds it, whoever sent it, or sends the same merge again.
            return Pending(plan, after.reason)
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


async def pause_after(ports: AttemptPorts, number: int) -> None:
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
