"""Removing what an attempt left: staging first, local second; never changes a result."""

from collections.abc import Awaitable
from contextlib import suppress

from perago.app.attempt.dispatch import Traces
from perago.app.attempt.world import World
from perago.domain.private_names import is_private_branch
from perago.domain.references import BranchName, CommitId, RepositoryId
from perago.ports.errors import BranchExistsError, OutcomeUnknownError, UnavailableError
from perago.ports.progress import Phase

STAGING_FAILED = "failed to clean staging workspace"
STAGING_LOST = "the branch of a decision is gone and could not be put back"
LOCAL_FAILED = "failed to clean attempt-local workspace"
PUT_BACK_TRIES_MAX = 5
PUT_BACK_PAUSE_SECONDS = 0.5


async def clean_up(world: World, traces: Traces) -> None:
    """Remove branches, then the directory; each on its own, a failure is only told."""
    if traces.staging is None and traces.directory is None and not traces.scratch:
        return
    if traces.staging is not None and traces.staging_may_go:
        await delete_staging(world, *traces.staging)
    elif traces.staging is not None and traces.proposed is not None:
        await _keep_staging(world, *traces.staging, traces.proposed)
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


async def _keep_staging(
    world: World, repository: RepositoryId, branch: BranchName, decision: CommitId
) -> None:
    """Leave the branch of a decision behind, and put it back if garbage collection took it.

    An attempt that stood still between its commit and its decision may have been replaced and
    collected meanwhile: nothing said then that anybody needed the branch. It goes on, decides, and
    learns here that its decision points at a commit that no branch keeps.
    """

    async def put_back() -> None:
        # Not given up at the first lost request: if the attempt ends here, no pass looks for a
        # branch that is missing.
        for number in range(1, PUT_BACK_TRIES_MAX):
            try:
                return await create()
            except (UnavailableError, OutcomeUnknownError):
                await world.clock.sleep(PUT_BACK_PAUSE_SECONDS * number)
        return await create()

    async def create() -> None:
        with suppress(BranchExistsError):  # as a rule it is there
            await world.lakefs.branches.create(repository, branch, decision)

    facts: dict[str, object] = {"staging_branch": branch, "repository": repository}
    await _only_tell(world, put_back(), STAGING_LOST, facts)


async def _only_tell(
    world: World, work: Awaitable[None], text: str, facts: dict[str, object]
) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - cleaning never changes a result
        world.progress.phase(Phase.WARNED, {"warning": text, "error": str(error), **facts})
