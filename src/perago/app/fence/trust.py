"""What this process knows of the fence: proven now and then for the server, or revoked for good.

The file in the input commit is read for each attempt. The live canary runs when its last verdict
is old: once for the server, because whether hooks run is a setting of the server and the bytes of
the fence are the same everywhere. A team with a repository for each song pays for one canary.
"""

from dataclasses import dataclass

from perago.app.fence.canary import Canary
from perago.domain.publication_fence import recognise_fence
from perago.domain.publication_policy import FenceState
from perago.domain.references import CommitId, RepositoryId
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.clock import Clock
from perago.ports.concurrency import Concurrency
from perago.ports.errors import ObjectMissingError
from perago.ports.objects import Objects

# An operator who has switched hooks on waits at most this long and restarts nothing. Not less,
# because a canary costs seven requests and attempts that are refused may come many a second.
DEAD_SECONDS = 120.0
# A server may be restarted with hooks off. Publications of this long a time are then unfenced,
# and only one that lands on a wrong parent would tell. Seven requests in ten minutes are little.
TRUSTED_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the last canary has shown, and until when that counts."""

    state: FenceState
    until: float


class FenceTrust:
    """Answers what a fence is worth on one server; shared by all attempts of a process."""

    def __init__(
        self, *, objects: Objects, canary: Canary, concurrency: Concurrency, clock: Clock
    ) -> None:
        self._objects = objects
        self._canary = canary
        self._concurrency = concurrency
        self._clock = clock
        self._verdict: _Verdict | None = None
        self._distrusted: set[RepositoryId] = set()

    async def file(self, repository: RepositoryId, commit: CommitId) -> FenceState:
        """What the fence file of an input commit is worth by its bytes; this writes nothing."""
        try:
            content = await self._objects.read(repository, commit, FENCE_PATH)
        except ObjectMissingError:
            return FenceState.ABSENT
        return recognise_fence(content)

    async def proven(self, repository: RepositoryId, commit: CommitId) -> FenceState:
        """Whether the server runs the fence of a commit whose file is one of ours: the canary."""
        async with self._concurrency.turn("canary"):
            verdict = self._verdict
            if repository not in self._distrusted and (
                verdict is None or self._clock.monotonic() >= verdict.until
            ):
                verdict = self._verdict = await self._ask(repository, commit)
        # Distrust may have come while the canary was under way, and it counts for more.
        if repository in self._distrusted or verdict is None:
            return FenceState.DISTRUSTED
        return verdict.state

    async def _ask(self, repository: RepositoryId, commit: CommitId) -> _Verdict:
        works = await self._canary.sings(repository, commit)
        seconds = TRUSTED_SECONDS if works else DEAD_SECONDS
        state = FenceState.TRUSTED if works else FenceState.DEAD
        return _Verdict(state, self._clock.monotonic() + seconds)

    def distrust(self, repository: RepositoryId) -> None:
        """A merge was seen that the fence had to refuse: nothing here is fenced any more.

        Until the process ends: a canary that works now says nothing of the server that skipped it.
        It is the server of the other repositories too, so they wait for no old verdict.
        """
        self._distrusted.add(repository)
        self._verdict = None
