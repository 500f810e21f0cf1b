"""The effects, one function each: what has to be there first, and the one request.

Each returns what followed from lakeFS's answer; which effect it is was decided before.
"""

from contextlib import suppress
from typing import assert_never

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.rebase import rebase
from perago.app.attempt.world import World
from perago.domain.errors import PublicationRefusedError
from perago.domain.outcome import (
    NoAnswer,
    NotPublished,
    Published,
    Relocated,
    RelocationRefused,
)
from perago.domain.private_names import relocated_tag, scratch_branch
from perago.domain.publication_effects import MergeExactTree, MergeStaged, Relocate
from perago.domain.publication_plan import WorkspacePublicationPlan
from perago.domain.references import CommitId
from perago.domain.settling import AfterMerge, LookAgain, Unanswered, after_merge
from perago.ports.branches import MergeRequest
from perago.ports.commits import CommitRequest
from perago.ports.errors import TagExistsError
from perago.ports.progress import Phase

DIRTY_OBJECTS_NAMED_MAX = 5


async def prepare(
    world: World, scope: Scope, plan: WorkspacePublicationPlan
) -> CommitId | LookAgain:
    """Make what the effect needs before the attempt fence; the commit it works with."""
    match plan.effect:
        case MergeStaged(staged, expected_head):
            if expected_head == plan.input_ref:
                return staged.commit  # the target is at its base: lakeFS takes the staged tree
            return await rebase(world, scope, plan, staged)
        case MergeExactTree(tree):
            return await _commit_exact_tree(world, scope, plan, tree)
        case Relocate(to, abandoned, owner_is_known):
            if not owner_is_known:
                facts = {"warning": "the replaced head names no owner", "head": abandoned}
                world.progress.phase(Phase.WARNED, facts)
            await refuse_dirty_target(world, plan)
            await _tag_abandoned(world, scope, plan, abandoned)
            return to
        case _:
            text = f"{plan.effect} needs no effect"
            raise AssertionError(text)


async def perform(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, prepared: CommitId
) -> AfterMerge:
    """Send the one request that moves the target branch."""
    if isinstance(plan.effect, Relocate):
        return await _relocate(world, scope, plan, prepared)
    after = await send_merge(world, plan, prepared, timeout_seconds=scope.effect_seconds)
    if isinstance(after, NotPublished) and after.code == "PRG-F013":
        await refuse_dirty_target(world, plan)
    return after


async def send_merge(
    world: World, plan: WorkspacePublicationPlan, prepared: CommitId, *, timeout_seconds: float
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
    return after_merge(await world.lakefs.branches.merge(request))


async def refuse_dirty_target(world: World, plan: WorkspacePublicationPlan) -> None:
    """Raise with the names of uncommitted objects on the target, if there are any."""
    page = await world.lakefs.commits.uncommitted_page(
        plan.repository, plan.branch, amount=DIRTY_OBJECTS_NAMED_MAX
    )
    if page.changes:
        names = ", ".join(change.path for change in page.changes)
        more = ", ..." if page.more else ""
        place = f"lakefs://{plan.repository}/{plan.branch}"
        text = f"{place} has uncommitted objects ({names}{more}); `lakectl branch reset {place}`"
        raise PublicationRefusedError(text, code="PRG-F013")


async def _relocate(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, to: CommitId
) -> AfterMerge:
    answer = await world.lakefs.branches.relocate(
        plan.repository, plan.branch, to, timeout_seconds=scope.effect_seconds
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
    world: World, scope: Scope, plan: WorkspacePublicationPlan, tree: CommitId
) -> CommitId:
    """A commit with exactly that tree on top of the head, on a scratch branch."""
    lakefs = world.lakefs
    record = await lakefs.commits.read(plan.repository, tree)
    scratch = scratch_branch(scope.staging_branch, plan.base)
    # A second round on the same head finds the branch of the first.
    if (plan.repository, scratch) not in scope.traces.scratch:
        scope.traces.scratch.append((plan.repository, scratch))
        await lakefs.branches.create(plan.repository, scratch, plan.base)
    request = CommitRequest(
        repository=plan.repository,
        branch=scratch,
        message=plan.message,
        metadata=plan.metadata,
        allow_empty=True,
        source_metarange=record.metarange,
    )
    return await lakefs.commits.commit(request)


async def _tag_abandoned(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, abandoned: CommitId
) -> None:
    """Keep the old head reachable: a relocation has no reflog."""
    tag = relocated_tag(abandoned, scope.dispatch.execution_id)
    with suppress(TagExistsError):  # an earlier round of this execution left it
        await world.lakefs.tags.create(plan.repository, tag, abandoned)
