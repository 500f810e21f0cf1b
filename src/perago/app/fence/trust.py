"""What this process knows of the fences of repositories: read once, proven once, revoked for good.

The file in the input commit is read for each attempt; the live canary runs once a repository.
"""

from perago.app.fence.canary import Canary
from perago.domain.publication_fence import recognise_fence
from perago.domain.publication_policy import FenceState
from perago.domain.references import CommitId, RepositoryId
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.concurrency import Concurrency
from perago.ports.errors import ObjectMissingError
from perago.ports.objects import Objects


class FenceTrust:
    """Answers what a fence is worth; shared by all attempts of a process."""

    def __init__(
        self,
        *,
        objects: Objects,
        canary: Canary,
        concurrency: Concurrency,
    ) -> None:
        self._objects = objects
        self._canary = canary
        self._concurrency = concurrency
        self._proven: dict[RepositoryId, FenceState] = {}

    async def file(self, repository: RepositoryId, commit: CommitId) -> FenceState:
        """What the fence file of an input commit is worth by its bytes; this writes nothing."""
        try:
            content = await self._objects.read(repository, commit, FENCE_PATH)
        except ObjectMissingError:
            return FenceState.ABSENT
        return recognise_fence(content)

    async def proven(self, repository: RepositoryId, commit: CommitId) -> FenceState:
        """Whether the server runs the fence of a commit whose file is one of ours: the canary."""
        async with self._concurrency.turn(f"canary/{repository}"):
            if repository not in self._proven:
                works = await self._canary.sings(repository, commit)
                verdict = FenceState.TRUSTED if works else FenceState.DEAD
                self._proven.setdefault(repository, verdict)  # distrust may have come meanwhile
        return self._proven[repository]

    def distrust(self, repository: RepositoryId) -> None:
        """A merge was seen that the fence had to refuse: nothing here is fenced any more."""
        self._proven[repository] = FenceState.DEAD
