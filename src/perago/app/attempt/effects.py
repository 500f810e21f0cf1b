"""Prefix isolation over a head that moved: the prefix on top of it, proven before it is seen.

lakeFS's three-way merge can lose objects without a conflict (an object that equals its neighbour
in path order). So it runs on a scratch branch first; what comes out must be the head outside the
prefix and the staged tree inside. Only that commit is published, onto the very head it was made
for, which lakeFS takes over as it is.
"""

from contextlib import suppress
from typing import assert_never

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.facts import refuse_dirty_target
from perago.app.attempt.stage import (
    DIFFERENCES_NAMED_MAX,
    commit_on_private_branch,
    create_private_branch,
    first_difference_outside,
)
from perago.domain.errors import (
    PublicationRefusedError,
)
from perago.domain.logical_execution import CommitId, StagedReference
from perago.domain.names import relocated_tag, scratch_branch
from perago.domain.outcome import (
    Merged,
    NoAnswer,
    NotPublished,
    Published,
    Relocated,
    RelocationRefused,
    TooManyTries,
)
from perago.domain.paths import ROOT_PREFIX, listing_prefix
from perago.domain.policy import WorkspacePublicationPlan
from perago.domain.publication import MergeExactTree, MergeStaged, Relocate
from perago.domain.settled import AfterMerge, LookAgain, Unanswered, after_merge
from perago.ports.errors import TagExistsError
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.workspace import Phase


async def rebase(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    plan: WorkspacePublicationPlan,
    staged: StagedReference,
) -> CommitId | LookAgain:
    """The staged prefix merged onto the head, on a branch of our own, checked on both sides.

    A scratch branch may be merged into twice: the second commit has the same tree.
    """
    scratch = scratch_branch(attempt.staging_branch, plan.base)
    if (plan.repository, scratch) not in attempt.leftovers.scratch:
        attempt.leftovers.scratch.append((plan.repository, scratch))
        await create_private_branch(ports, plan.repository, scratch, plan.base)
    request = MergeRequest(
        plan.repository,
        staged.commit,
        scratch,
        plan.message,
        timeout_seconds=attempt.effect_seconds,
    )
    answer = await ports.lakefs.branches.merge(request)
    if isinstance(answer, NoAnswer | TooManyTries):  # only this attempt knows the branch
        return LookAgain(answer.text)
    if not isinstance(answer, Merged):
        text = f"the staged prefix does not merge onto head {plan.base}: {answer}"
        raise PublicationRefusedError(text, code="PRG-F015")
    await _check_inside(ports, target, staged.commit, answer.commit)
    await _check_outside(ports, target, plan.base, answer.commit)
    return answer.commit


async def _check_inside(
    ports: AttemptPorts, target: Target, staged: CommitId, merged: CommitId
) -> None:
    """Below the prefix nothing may differ from what was staged."""
    page = await ports.lakefs.commits.diff_page(
        target.workspace.repository,
        staged,
        merged,
        prefix=listing_prefix(target.prefix),
        amount=DIFFERENCES_NAMED_MAX,
    )
    if page.changes:
        raise _lost(", ".join(change.path for change in page.changes))


async def _check_outside(
    ports: AttemptPorts, target: Target, head: CommitId, merged: CommitId
) -> None:
    """Before and behind the prefix nothing may differ from the head."""
    prefix, repository = target.prefix, target.workspace.repository
    if prefix == ROOT_PREFIX:  # there is no outside; reserved objects are not staged
        return
    lost = await first_difference_outside(ports, repository, head, merged, prefix)
    if lost is not None:
        raise _lost(lost)


def _lost(names: str) -> PublicationRefusedError:
    text = f"lakeFS's merge would change objects of others: {names}; nothing was published"
    return PublicationRefusedError(text, code="PRG-F015")


async def prepare(
    ports: AttemptPorts, attempt: Attempt, target: Target, plan: WorkspacePublicationPlan
) -> CommitId | LookAgain:
    """Make what the effect needs before the attempt fence; the commit it works with."""
    match plan.effect:
        case MergeStaged(staged, expected_head):
            if expected_head == plan.input_ref:
                return staged.commit  # the target is at its base: lakeFS takes the staged tree
            return await rebase(ports, attempt, target, plan, staged)
        case MergeExactTree(tree):
            return await _commit_exact_tree(ports, attempt, plan, tree)
        case Relocate(to, abandoned, owner_is_known):
            if not owner_is_known:
                facts = {"warning": "the replaced head names no owner", "head": abandoned}
                ports.progress.phase(Phase.WARNED, facts)
            await refuse_dirty_target(ports, plan.repository, plan.branch)
            await _tag_abandoned(ports, attempt, plan, abandoned)
            return to
        case _:
            text = f"{plan.effect} needs no effect"
            raise AssertionError(text)


async def perform(
    ports: AttemptPorts,
    attempt: Attempt,
    plan: WorkspacePublicationPlan,
    prepared: CommitId,
) -> AfterMerge:
    """Send the one request that moves the target branch."""
    if isinstance(plan.effect, Relocate):
        return await _relocate(ports, attempt, plan, prepared)
    after = await send_merge(ports, plan, prepared, timeout_seconds=attempt.effect_seconds)
    # lakeFS says only that the target has uncommitted objects. This raises with their names.
    if isinstance(after, NotPublished) and after.code == "PRG-F013":
        await refuse_dirty_target(ports, plan.repository, plan.branch)
    return after


async def send_merge(
    ports: AttemptPorts,
    plan: WorkspacePublicationPlan,
    prepared: CommitId,
    *,
    timeout_seconds: float,
) -> AfterMerge:
    """The merge of a plan and nothing else, so that it may be sent again word for word."""
    request = MergeRequest(
        repository=plan.repository,
        source=prepared,
        target=plan.branch,
        message=plan.message,
        metadata=plan.metadata,
        # A superseding tree may equal the superseded one; every other empty merge is a mistake.
        allow_empty=isinstance(plan.effect, MergeExactTree),
        timeout_seconds=timeout_seconds,
    )
    return after_merge(await ports.lakefs.branches.merge(request))


async def _relocate(
    ports: AttemptPorts,
    attempt: Attempt,
    plan: WorkspacePublicationPlan,
    to: CommitId,
) -> AfterMerge:
    answer = await ports.lakefs.branches.relocate(
        plan.repository, plan.branch, to, timeout_seconds=attempt.effect_seconds
    )
    match answer:
        case Relocated():
            return Published(to)
        case RelocationRefused(text, protected):
            if protected:
                remedy = (
                    f"{plan.branch} is protected, so an abandoned publication cannot be replaced "
                    "under head-parent; use policy settled (`perago fence install`) or lineage"
                )
                return NotPublished("PRG-F014", f"{remedy}: {text}")
            return NotPublished("PRG-L003", text)
        case NoAnswer(text):
            return Unanswered(text)
        case _:
            assert_never(answer)


async def _commit_exact_tree(
    ports: AttemptPorts,
    attempt: Attempt,
    plan: WorkspacePublicationPlan,
    tree: CommitId,
) -> CommitId:
    """A commit with exactly that tree on top of the head, on a scratch branch."""
    record = await ports.lakefs.commits.read(plan.repository, tree)
    scratch = scratch_branch(attempt.staging_branch, plan.base)
    # A second round on the same head finds the branch of the first.
    if (plan.repository, scratch) not in attempt.leftovers.scratch:
        attempt.leftovers.scratch.append((plan.repository, scratch))
        await create_private_branch(ports, plan.repository, scratch, plan.base)
    request = CommitRequest(
        repository=plan.repository,
        branch=scratch,
        message=plan.message,
        metadata=plan.metadata,
        allow_empty=True,
        source_metarange=record.metarange,
    )
    return await commit_on_private_branch(ports, attempt, request)


async def _tag_abandoned(
    ports: AttemptPorts,
    attempt: Attempt,
    plan: WorkspacePublicationPlan,
    abandoned: CommitId,
) -> None:
    """Keep the old head reachable: a relocation has no reflog."""
    tag = relocated_tag(abandoned, attempt.execution_id)
    with suppress(TagExistsError):  # an earlier round of this execution left it
        await ports.lakefs.tags.create(plan.repository, tag, abandoned)
