"""Prefix isolation over a head that moved: the prefix on top of it, proven before it is seen.

lakeFS's three-way merge can lose objects without a conflict (an object that equals its neighbour
in path order). So it runs on a scratch branch first; what comes out must be the head outside the
prefix and the staged tree inside. Only that commit is published, onto the very head it was made
for, which lakeFS takes over as it is.
"""

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.read_target import first_difference_outside, object_prefix
from perago.app.attempt.world import World
from perago.domain.errors import PublicationRefusedError
from perago.domain.outcome import Merged, NoAnswer, TooManyTries
from perago.domain.prefix_projection import ROOT_PREFIX
from perago.domain.private_names import scratch_branch
from perago.domain.publication_plan import WorkspacePublicationPlan
from perago.domain.references import CommitId, StagedReference
from perago.domain.settling import LookAgain
from perago.ports.branches import MergeRequest

DIFFERENCES_NAMED_MAX = 5


async def rebase(
    world: World, scope: Scope, plan: WorkspacePublicationPlan, staged: StagedReference
) -> CommitId | LookAgain:
    """The staged prefix merged onto the head, on a branch of our own, checked on both sides.

    A scratch branch may be merged into twice: the second commit has the same tree.
    """
    scratch = scratch_branch(scope.staging_branch, plan.base)
    if (plan.repository, scratch) not in scope.traces.scratch:
        scope.traces.scratch.append((plan.repository, scratch))
        await world.lakefs.branches.create(plan.repository, scratch, plan.base)
    request = MergeRequest(
        plan.repository,
        staged.commit,
        scratch,
        plan.message,
        timeout_seconds=scope.effect_seconds,
    )
    answer = await world.lakefs.branches.merge(request)
    if isinstance(answer, NoAnswer | TooManyTries):  # nobody but us sees this branch
        return LookAgain(answer.text)
    if not isinstance(answer, Merged):
        text = f"the staged prefix does not merge onto head {plan.base}: {answer}"
        raise PublicationRefusedError(text, code="PRG-F015")
    await _check_inside(world, scope, staged.commit, answer.commit)
    await _check_outside(world, scope, plan.base, answer.commit)
    return answer.commit


async def _check_inside(world: World, scope: Scope, staged: CommitId, merged: CommitId) -> None:
    """Below the prefix nothing may differ from what was staged."""
    page = await world.lakefs.commits.diff_page(
        scope.ground.workspace.repository,
        staged,
        merged,
        prefix=object_prefix(scope.ground.prefix),
        amount=DIFFERENCES_NAMED_MAX,
    )
    if page.changes:
        raise _lost(", ".join(change.path for change in page.changes))


async def _check_outside(world: World, scope: Scope, head: CommitId, merged: CommitId) -> None:
    """Before and behind the prefix nothing may differ from the head."""
    prefix, repository = scope.ground.prefix, scope.ground.workspace.repository
    if prefix == ROOT_PREFIX:  # there is no outside; reserved objects are not staged
        return
    lost = await first_difference_outside(world, repository, head, merged, prefix)
    if lost is not None:
        raise _lost(lost)


def _lost(names: str) -> PublicationRefusedError:
    text = f"lakeFS's merge would change objects it must not: {names}; nothing was published"
    return PublicationRefusedError(text, code="PRG-F015")
