"""What a fence is worth on this server: `perago fence verify`, and what the attempts trust.

The canary sends a merge that the fence must refuse and one that it must let pass, on branches of
its own. There is no other proof: with `actions.enabled=false` the server merges what the fence had
to refuse, and its configuration endpoint says nothing of it. `FenceTrust` keeps the verdict for all
attempts of a process.

`verify_fence` tries a second thing: a merge into a branch that is protected as the target is,
because a release of lakeFS may let its rules refuse merges. It sets a protection rule for names of
its own, and takes it away again.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from perago.domain import outcome
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_VERSION, FenceState, SeenFence, recognise_fence
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.names import PROTECTED_CANARIES, canary_branches
from perago.domain.paths import FENCE_PATH
from perago.domain.settled import after_merge
from perago.ports import errors
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Branches, CommitRequest, MergeRequest
from perago.ports.system import Clock, Concurrency, Identities

WRONG_HEAD = "0" * 64  # the form of a commit id, and the id of no commit
# An operator who has switched hooks on waits at most this long and restarts nothing. Not less,
# because a canary costs seven requests and attempts that are refused may come many a second.
DEAD_SECONDS = 120.0
# A server may be restarted with hooks off. Publications of this long a time are then unfenced,
# and only one that lands on a wrong parent would tell. Seven requests in ten minutes are little.
TRUSTED_SECONDS = 600.0
# lakeFS 1.86 keeps the rules that it has read for 3 to 6 seconds. These looks take 15. After them
# the verdict is `not tried`.
LOOKS_MAX = 30
PAUSE_SECONDS = 0.5
MESSAGE = "perago canary"

UNPROTECTED = (
    "after a hard reset by a person, retries publish again what the reset removed; protect the "
    "branch (publications pass, resets do not) and roll back with `lakectl branch revert`"
)


@dataclass(frozen=True, slots=True)
class FenceTools:
    """By what a fence is installed and tried."""

    lakefs: LakeFSInstallation
    identities: Identities


async def read_fence(tools: FenceTools, repository: RepositoryId, ref: str) -> bytes | None:
    """The bytes of the fence file at a reference, or None."""
    try:
        return await tools.lakefs.objects.read(repository, ref, FENCE_PATH)
    except errors.ObjectMissingError:
        return None


@asynccontextmanager
async def removed_afterwards(
    branches: Branches, repository: RepositoryId, *names: BranchName
) -> AsyncGenerator[None]:
    """Remove scratch branches when the block ends, whether they were made or not."""
    try:
        yield
    finally:
        for name in reversed(names):
            # What stays here goes later: garbage collection sweeps canaries older than an hour.
            with suppress(errors.ServiceError):
                await branches.delete(repository, name)


async def refuses_wrong_head(tools: FenceTools, repository: RepositoryId, commit: CommitId) -> bool:
    """Whether a wrong expected head is refused and the right one passes: the canary.

    Raises when the server said neither: a verdict is kept, so it must be one. UnavailableError
    for no answer, PublicationRefusedError for a hook that is not ours or a broken action file.
    """
    target, source = canary_branches(tools.identities.new_execution_id())
    async with removed_afterwards(tools.lakefs.branches, repository, target, source):
        staged = await _empty_commit(tools, repository, target, source, commit)

        async def is_refused(expected: str) -> bool:
            answer = await _merge(tools, repository, staged, target, expected)
            if isinstance(answer, outcome.HeadMoved | outcome.Merged):
                return isinstance(answer, outcome.HeadMoved)
            after = after_merge(answer)
            if isinstance(after, outcome.NotPublished):
                raise PublicationRefusedError(
                    f"canary of {repository}: {after.reason}", code=after.code
                )
            text = f"canary of {repository}: the test merge proved nothing: {answer}"
            raise errors.UnavailableError(text)

        return await is_refused(WRONG_HEAD) and not await is_refused(commit)


async def _empty_commit(
    tools: FenceTools,
    repository: RepositoryId,
    target: BranchName,
    source: BranchName,
    head: CommitId,
) -> CommitId:
    """Create two branches on a commit, and put an empty commit on the second one."""
    for name in (target, source):
        await tools.lakefs.branches.create(repository, name, head, hidden=True)
    request = CommitRequest(repository, source, MESSAGE, {}, allow_empty=True)
    return await tools.lakefs.commits.commit(request)


async def _merge(
    tools: FenceTools, repository: RepositoryId, staged: CommitId, target: BranchName, expected: str
) -> outcome.MergeAnswer:
    metadata = {EXPECTED_HEAD: expected}
    return await tools.lakefs.branches.merge(
        MergeRequest(repository, staged, target, MESSAGE, metadata, allow_empty=True)
    )


class FenceTrust:
    """Answers what a fence is worth on one server; shared by all attempts of a process."""

    def __init__(self, tools: FenceTools, concurrency: Concurrency, clock: Clock) -> None:
        self._tools = tools
        self._concurrency = concurrency
        self._clock = clock
        # By version of the fence: what the last canary has shown, and until when that counts.
        self._verdicts: dict[int, tuple[FenceState, float]] = {}
        self._distrusted: set[RepositoryId] = set()

    async def file(self, repository: RepositoryId, commit: CommitId) -> SeenFence:
        """What the fence file of an input commit is worth by its bytes; this writes nothing."""
        return recognise_fence(await read_fence(self._tools, repository, commit))

    async def proven(
        self, repository: RepositoryId, commit: CommitId, version: int = FENCE_VERSION
    ) -> FenceState:
        """Whether the server runs the fence of a commit whose file is one of ours: the canary.

        Once for each version, because what runs one script may stumble over another.
        """
        async with self._concurrency.turn("canary"):
            state, until = self._verdicts.get(version, (FenceState.DISTRUSTED, -inf))
            if repository not in self._distrusted and self._clock.monotonic() >= until:
                works = await self._works(repository, commit)
                seconds = TRUSTED_SECONDS if works else DEAD_SECONDS
                state = FenceState.TRUSTED if works else FenceState.DEAD
                self._verdicts[version] = state, self._clock.monotonic() + seconds
        # Distrust may have come while the canary was under way, and it counts for more.
        return FenceState.DISTRUSTED if repository in self._distrusted else state

    async def _works(self, repository: RepositoryId, commit: CommitId) -> bool:
        return await refuses_wrong_head(self._tools, repository, commit)

    def distrust(self, repository: RepositoryId) -> None:
        """A merge was seen that the fence had to refuse: nothing here is fenced any more.

        Until the process ends: a canary that works now says nothing of the server that skipped it.
        It is the server of the other repositories too, so they wait for no old verdict.
        """
        self._distrusted.add(repository)
        self._verdicts.clear()


class ProtectedMerge(StrEnum):
    """What became of the merge into a protected branch."""

    PASSES = "passes"
    REFUSED = "refused"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class FenceVerdict:
    """What a verification found; TRUSTED means that the server refused a wrong head just now."""

    repository: RepositoryId
    branch: BranchName
    head: CommitId
    state: FenceState
    version: int
    protected: bool
    protected_merge: ProtectedMerge

    @property
    def works(self) -> bool:
        """Whether attempts can publish here, and the fence keeps them apart."""
        refused = self.protected and self.protected_merge is ProtectedMerge.REFUSED
        return self.state is FenceState.TRUSTED and not refused

    @property
    def warnings(self) -> tuple[str, ...]:
        """What weakens a working fence."""
        warnings: list[str] = []
        if 0 < self.version < FENCE_VERSION:
            warnings.append(
                f"version {self.version} of the fence is old, the newest is {FENCE_VERSION}: it"
                " lets people merge Perago's private branches; replace it with"
                f" `perago fence install {self.repository} {self.branch}`"
            )
        if self.protected_merge is ProtectedMerge.REFUSED:
            warnings.append(
                "lakeFS refused a merge into a protected branch, and publications are merges: let"
                f" the protection rule of {self.branch} allow merges"
            )
        if not self.protected:
            warnings.append(f"{self.branch} is not protected: {UNPROTECTED}")
        return tuple(warnings)


async def verify_fence(
    tools: FenceTools,
    clock: Clock,
    repository: RepositoryId,
    branch: BranchName,
    *,
    if_protected_only: bool = False,
) -> FenceVerdict:
    """Read the file at the head, then try it: the server must refuse a wrong head.

    The merge into a protected branch takes seconds: `if_protected_only` spares it where `branch` is
    not protected.
    """
    head = (await tools.lakefs.branches.head(repository, branch)).commit
    seen = recognise_fence(await read_fence(tools, repository, head))
    state, protected_merge = seen.state, ProtectedMerge.NOT_TRIED
    protected = await tools.lakefs.branches.is_protected(repository, branch)
    if state is FenceState.TRUSTED and not await refuses_wrong_head(tools, repository, head):
        state = FenceState.DEAD
    if state is FenceState.TRUSTED and (protected or not if_protected_only):
        like = branch if protected else None
        protected_merge = await _merge_protected(tools, clock, repository, head, like)
    return FenceVerdict(repository, branch, head, state, seen.version, protected, protected_merge)


async def _merge_protected(
    tools: FenceTools,
    clock: Clock,
    repository: RepositoryId,
    head: CommitId,
    like: BranchName | None,
) -> ProtectedMerge:
    """Merge an empty commit into a branch with a protection rule; the branches go again.

    The rule covers the protected canaries of all checks: one that a dead check leaves behind is
    removed by the next.
    """
    branches = tools.lakefs.branches
    execution_id = tools.identities.new_execution_id()
    target, source = canary_branches(execution_id, protected=True)
    async with removed_afterwards(branches, repository, target, source):
        try:
            staged = await _empty_commit(tools, repository, target, source, head)
            try:
                await branches.protect(repository, PROTECTED_CANARIES, like=like)
            # The key may not change rules; the fence was tried without.
            except errors.AccessDeniedError:
                return ProtectedMerge.NOT_TRIED
            if not await _is_enforced(tools, clock, repository, target, head):
                return ProtectedMerge.NOT_TRIED
            answer = await _merge(tools, repository, staged, target, head)
        finally:
            # A rule that stays covers scratch branches of this check only.
            with suppress(errors.ServiceError):
                await branches.unprotect(repository, PROTECTED_CANARIES)
    if isinstance(answer, outcome.Merged):
        return ProtectedMerge.PASSES
    is_refused = isinstance(answer, outcome.MergeRefused)
    return ProtectedMerge.REFUSED if is_refused else ProtectedMerge.NOT_TRIED


async def _is_enforced(
    tools: FenceTools, clock: Clock, repository: RepositoryId, target: BranchName, head: CommitId
) -> bool:
    """Whether the server refuses to reset a branch to where it is, which changes nothing."""
    for _ in range(LOOKS_MAX):
        answer = await tools.lakefs.branches.relocate(repository, target, head)
        if isinstance(answer, outcome.RelocationRefused):
            return answer.protected
        await clock.sleep(PAUSE_SECONDS)
    return False
