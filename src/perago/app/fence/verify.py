"""Verifying a fence: the file by its bytes, the server by a canary, the branch by its rules."""

from dataclasses import dataclass

from perago.app.fence.canary import Canary
from perago.app.fence.install import FenceTools, read_fence
from perago.domain.publication_fence import recognise_fence
from perago.domain.publication_policy import FenceState
from perago.domain.references import BranchName, CommitId, RepositoryId


@dataclass(frozen=True, slots=True)
class FenceVerdict:
    """What a verification found; `state` is TRUSTED only when the canary sang."""

    repository: RepositoryId
    branch: BranchName
    head: CommitId
    state: FenceState
    protected: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        """What weakens a working fence."""
        if self.protected:
            return ()
        warning = (
            f"{self.branch} is not protected: a hard reset by a human re-arms every decision; "
            "protect it (publications pass, resets do not) and roll back with revert"
        )
        return (warning,)


async def verify_fence(
    tools: FenceTools, canary: Canary, repository: RepositoryId, branch: BranchName
) -> FenceVerdict:
    """Read the file at the head, then let the canary sing from it."""
    head = await tools.branches.head(repository, branch)
    state = recognise_fence(await read_fence(tools, repository, head.commit))
    if state is FenceState.TRUSTED and not await canary.sings(repository, head.commit):
        state = FenceState.DEAD
    protected = await tools.branches.is_protected(repository, branch)
    return FenceVerdict(repository, branch, head.commit, state, protected)
