"""Removing what an attempt left: staging first, local second; never changes a result."""

from collections.abc import Awaitable

from perago.app.attempt.dispatch import Traces
from perago.app.attempt.world import World
from perago.domain.private_names import is_private_branch
from perago.domain.references import BranchName, RepositoryId
from perago.ports.progress import Phase

STAGING_FAILED = "failed to clean staging workspace"
LOCAL_FAILED = "failed to clean attempt-local workspace"


async def clean_up(world: World, traces: Traces) -> None:
    """Remove branches, then the directory; each on its own, a failure is only told."""
    if traces.staging is None and traces.directory is None and not traces.scratch:
        return
    if traces.staging is not None and traces.staging_may_go:
        await delete_staging(world, *traces.staging)
    for repository, branch in () if traces.outcome_unknown else traces.scratch:
        await delete_staging(world, repository, branch)
    if traces.materialised is not None:
        await _only_tell(world, world.lakefs.pipeline.forget(traces.materialised), LOCAL_FAILED, {})
    if traces.directory is not None:
        facts: dict[str, object] = {"workspace_dir": str(traces.directory)}
        await _only_tell(world, world.directories.remove(traces.directory), LOCAL_FAILED, facts)
    world.progress.phase(Phase.CLEANED, {"staging_kept": not traces.staging_may_go})


async def delete_staging(world: World, repository: RepositoryId, branch: BranchName) -> None:
    """Delete one private branch; whatever stays is found by garbage collection."""
    facts: dict[str, object] = {"staging_branch": branch, "repository": repository}
    if not is_private_branch(branch):
        kept = {"warning": STAGING_FAILED, "error": f"{branch} is no private branch of Perago"}
        world.progress.phase(Phase.WARNED, {**kept, **facts})
        return
    await _only_tell(world, world.lakefs.branches.delete(repository, branch), STAGING_FAILED, facts)


async def _only_tell(
    world: World, work: Awaitable[None], text: str, facts: dict[str, object]
) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - cleaning never changes a result
        world.progress.phase(Phase.WARNED, {"warning": text, "error": str(error), **facts})
