"""Staging: the changes of a workspace as one commit on the attempt's private branch."""

from collections.abc import Mapping, Sequence

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.world import World
from perago.domain.commit_metadata import NOOP, TRY, commit_message, try_metadata
from perago.domain.publication_policy import Level
from perago.domain.references import NO_METADATA, BranchName, CommitId, StagedReference
from perago.domain.result_storage import split_result
from perago.domain.sync_plan import SyncPlan
from perago.ports.commits import CommitRequest
from perago.ports.progress import Phase
from perago.ports.workspace_pipeline import Materialised, StagingArea


async def stage_changes(
    world: World,
    scope: Scope,
    materialised: Materialised,
    plan: SyncPlan,
    result: Mapping[str, object],
) -> StagedReference:
    """Create the branch, bring the plan onto it, verify it, commit it.

    Under `settled` the commit carries the result, so that a retry can finish without the body.
    """
    own, below = _stored(scope, result)
    branch = await open_staging(world, scope)
    await _commit_below(world, scope, branch, below)
    place = scope.ground.workspace
    area = StagingArea(StagedReference(place.repository, branch, place.ref), scope.ground.prefix)
    counts = await world.lakefs.pipeline.transfer(materialised, plan, area)
    await world.lakefs.pipeline.verify(materialised, plan, area)
    commit = await _commit(world, scope, branch, own, empty=False)
    facts = {
        "branch": branch,
        "commit": commit,
        "objects": counts.objects,
        "bytes": counts.bytes,
        "transfer_requests": counts.requests,
    }
    world.progress.phase(Phase.STAGED, facts)
    return StagedReference(place.repository, branch, commit)


async def stage_nothing(
    world: World, scope: Scope, result: Mapping[str, object]
) -> StagedReference:
    """The decision of an unchanged workspace: an empty commit that is never merged."""
    own, below = _stored(scope, result)
    branch = await open_staging(world, scope)
    await _commit_below(world, scope, branch, below)
    commit = await _commit(world, scope, branch, {**own, NOOP: "true"}, empty=True)
    world.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": True})
    return StagedReference(scope.ground.workspace.repository, branch, commit)


async def commit_plainly(world: World, scope: Scope, branch: BranchName) -> CommitId:
    """Commit what somebody else wrote on an open branch, if anything, without saying more."""
    return await _commit(world, scope, branch, NO_METADATA, empty=True)


async def commit_pieces(
    world: World, scope: Scope, branch: BranchName, result: Mapping[str, object]
) -> None:
    """Commit the pieces of a large result on an open branch; the first takes changes along."""
    _, below = _stored(scope, result)
    await _commit_below(world, scope, branch, below)


async def commit_written(
    world: World, scope: Scope, branch: BranchName, result: Mapping[str, object], *, noop: bool
) -> StagedReference:
    """Commit what somebody else wrote on an open branch, or that nothing was written.

    It may be empty: the pieces of the result, or the body, may have committed the changes. The
    tree of the last commit is what is published.
    """
    own, _ = _stored(scope, result)
    extra = {**own, NOOP: "true"} if noop else own
    commit = await _commit(world, scope, branch, extra, empty=True)
    world.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": noop})
    return StagedReference(scope.ground.workspace.repository, branch, commit)


def _stored(
    scope: Scope, result: Mapping[str, object]
) -> tuple[Mapping[str, str], Sequence[Mapping[str, str]]]:
    if scope.ground.level is not Level.SETTLED:
        return NO_METADATA, ()
    stored = split_result(result)
    return stored.metadata, stored.below


async def open_staging(world: World, scope: Scope) -> BranchName:
    """Record the name first: whatever dies after this line, GC finds the branch."""
    place = scope.ground.workspace
    branch = scope.staging_branch
    if scope.traces.directory is not None:
        await world.directories.record_staging(scope.traces.directory, place.repository, branch)
    scope.traces.staging = (place.repository, branch)
    world.progress.phase(Phase.STAGING, {"repository": place.repository, "branch": branch})
    await world.lakefs.branches.create(place.repository, branch, place.ref)
    return branch


async def _commit_below(
    world: World, scope: Scope, branch: BranchName, below: Sequence[Mapping[str, str]]
) -> None:
    """Pieces of a large result stand in empty commits under the staged one."""
    for piece in below:
        await _commit(world, scope, branch, piece, empty=True)


async def _commit(
    world: World, scope: Scope, branch: BranchName, extra: Mapping[str, str], *, empty: bool
) -> CommitId:
    """Commit what is there; only a no-op and the pieces of a result may be empty."""
    request = CommitRequest(
        repository=scope.ground.workspace.repository,
        branch=branch,
        message=commit_message(scope.dispatch.attempt, TRY),
        metadata=try_metadata(scope.identity, extra),
        allow_empty=empty,
    )
    return await world.lakefs.commits.commit(request)
