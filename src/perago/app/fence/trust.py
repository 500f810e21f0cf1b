"""What a fence is worth on this server: the canary that tries it, and how long its verdict counts.

The canary sends a merge that the fence must refuse and one that it must let pass, on branches of
its own. There is no other proof: with `actions.enabled=false` the server merges what the fence had
to refuse, and its configuration endpoint says nothing of it. `FenceTrust` keeps the verdict for all
attempts of a process.
"""

from dataclasses import dataclass

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_VERSION, FenceState, SeenFence, recognise_fence
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId
from perago.domain.names import canary_branches
from perago.domain.outcome import HeadMoved, Merged, NotPublished
from perago.domain.paths import FENCE_PATH
from perago.domain.settled import after_merge
from perago.ports.errors import ObjectMissingError, ServiceError, UnavailableError
from perago.ports.lakefs import Branches, CommitRequest, Commits, MergeRequest
from perago.ports.objects import Objects
from perago.ports.system import Clock, Concurrency, Identities

WRONG_HEAD = "0" * 64  # the form of a commit id, and the id of no commit


class Canary:
    """Probes one repository at one commit."""

    def __init__(self, *, branches: Branches, commits: Commits, identities: Identities) -> None:
        self._branches = branches
        self._commits = commits
        self._identities = identities

    async def refuses_wrong_head(self, repository: RepositoryId, commit: CommitId) -> bool:
        """Whether a wrong expected head is refused and the right one passes.

        Raises when the server said neither: a verdict is kept, so it must be one. UnavailableError
        for no answer, PublicationRefusedError for a hook that is not ours or a broken action file.
        """
        target, source = canary_branches(self._identities.new_execution_id())
        try:
            await self._branches.create(repository, target, commit, hidden=True)
            await self._branches.create(repository, source, commit, hidden=True)
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
        raise UnavailableError(f"canary of {repository}: the test merge proved nothing: {answer}")

    async def _forget(self, repository: RepositoryId, branch: BranchName) -> None:
        try:
            await self._branches.delete(repository, branch)
        except ServiceError:
            return  # garbage collection sweeps canaries older than an hour


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
        self._verdicts: dict[int, _Verdict] = {}
        self._distrusted: set[RepositoryId] = set()

    async def file(self, repository: RepositoryId, commit: CommitId) -> SeenFence:
        """What the fence file of an input commit is worth by its bytes; this writes nothing."""
        try:
            content = await self._objects.read(repository, commit, FENCE_PATH)
        except ObjectMissingError:
            content = None
        return recognise_fence(content)

    async def proven(
        self, repository: RepositoryId, commit: CommitId, version: int = FENCE_VERSION
    ) -> FenceState:
        """Whether the server runs the fence of a commit whose file is one of ours: the canary.

        Once for each version, because what runs one script may stumble over another.
        """
        async with self._concurrency.turn("canary"):
            verdict = self._verdicts.get(version)
            if repository not in self._distrusted and (
                verdict is None or self._clock.monotonic() >= verdict.until
            ):
                verdict = self._verdicts[version] = await self._ask(repository, commit)
        # Distrust may have come while the canary was under way, and it counts for more.
        if repository in self._distrusted or verdict is None:
            return FenceState.DISTRUSTED
        return verdict.state

    async def _ask(self, repository: RepositoryId, commit: CommitId) -> _Verdict:
        works = await self._canary.refuses_wrong_head(repository, commit)
        seconds = TRUSTED_SECONDS if works else DEAD_SECONDS
        state = FenceState.TRUSTED if works else FenceState.DEAD
        return _Verdict(state, self._clock.monotonic() + seconds)

    def distrust(self, repository: RepositoryId) -> None:
        """A merge was seen that the fence had to refuse: nothing here is fenced any more.

        Until the process ends: a canary that works now says nothing of the server that skipped it.
        It is the server of the other repositories too, so they wait for no old verdict.
        """
        self._distrusted.add(repository)
        self._verdicts.clear()
