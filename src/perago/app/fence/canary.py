"""The live canary: a merge that the fence must refuse, and one that it must let pass.

Proves that this server runs the hook; a configuration cannot say so. Works on scratch branches
that are removed afterwards and swept by garbage collection.
"""

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.outcome import HeadMoved, Merged, NotPublished
from perago.domain.private_names import canary_branches
from perago.domain.references import BranchName, CommitId, RepositoryId
from perago.domain.settling import after_merge
from perago.ports.branches import Branches, MergeRequest
from perago.ports.commits import CommitRequest, Commits
from perago.ports.errors import UnavailableError, WorldError
from perago.ports.identities import Identities

WRONG_HEAD = "0" * 64


class Canary:
    """Probes one repository at one commit."""

    def __init__(self, *, branches: Branches, commits: Commits, identities: Identities) -> None:
        self._branches = branches
        self._commits = commits
        self._identities = identities

    async def sings(self, repository: RepositoryId, commit: CommitId) -> bool:
        """Whether a wrong expected head is refused and the right one passes.

        Raises when the server said neither: a verdict is kept, so it must be one. UnavailableError
        for no answer, PublicationRefusedError for somebody else's hook or a broken action file.
        """
        target, source = canary_branches(self._identities.new_execution_id())
        try:
            await self._branches.create(repository, target, commit)
            await self._branches.create(repository, source, commit)
            staged = await self._commits.commit(
                CommitRequest(repository, source, "perago canary", {}, allow_empty=True)
            )
            refuses = await self._is_refused(repository, staged, target, WRONG_HEAD)
            return refuses and not await self._is_refused(repository, staged, target, commit)
        finally:
            await self._forget(repository, source)
            await self._forget(repository, target)

    async def _is_refused(
        self, repository: RepositoryId, staged: CommitId, target: BranchName, expected: str
    ) -> bool:
        request = MergeRequest(
            repository=repository,
            source=staged,
            target=target,
            message="perago canary",
            metadata={EXPECTED_HEAD: expected},
            allow_empty=True,
        )
        answer = await self._branches.merge(request)
        if isinstance(answer, HeadMoved | Merged):
            return isinstance(answer, HeadMoved)
        after = after_merge(answer)
        if isinstance(after, NotPublished):
            raise PublicationRefusedError(
                f"canary of {repository}: {after.reason}", code=after.code
            )
        raise UnavailableError(f"canary of {repository}: nothing is proven: {answer}")

    async def _forget(self, repository: RepositoryId, branch: BranchName) -> None:
        try:
            await self._branches.delete(repository, branch)
        except WorldError:
            return  # garbage collection sweeps canaries older than an hour
