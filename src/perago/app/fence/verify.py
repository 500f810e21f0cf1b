"""`perago fence verify`: the fence of one branch, tried on the server.

The canary sends a merge that must be refused. A second try merges into a branch that is protected
as the target is, because a release of lakeFS may let its rules refuse merges. It sets a protection
rule for names of its own, and takes it away again.
"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from perago.app.fence.install import FenceTools, read_fence
from perago.app.fence.trust import Canary
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_VERSION, FenceState, recognise_fence
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId
from perago.domain.names import PROTECTED_CANARIES, protected_canary_branches
from perago.domain.outcome import Merged, MergeRefused, RelocationRefused
from perago.ports.errors import AccessDeniedError, ServiceError
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.system import Clock

# lakeFS 1.86 keeps the rules that it has read for 3 to 6 seconds. These looks take 15. After them
# the verdict is `not tried`.
LOOKS_MAX = 30
PAUSE_SECONDS = 0.5

UNPROTECTED = (
    "after a hard reset by a person, retries publish again what the reset removed; protect the "
    "branch (publications pass, resets do not) and roll back with `lakectl branch revert`"
)


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
    canary: Canary,
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
    head = (await tools.branches.head(repository, branch)).commit
    seen = recognise_fence(await read_fence(tools, repository, head))
    state, protected_merge = seen.state, ProtectedMerge.NOT_TRIED
    protected = await tools.branches.is_protected(repository, branch)
    if state is FenceState.TRUSTED and not await canary.refuses_wrong_head(repository, head):
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
    branches = tools.branches
    target, source = protected_canary_branches(tools.identities.new_execution_id())
    try:
        for name in (target, source):
            await branches.create(repository, name, head, hidden=True)
        request = CommitRequest(repository, source, "perago canary", {}, allow_empty=True)
        staged = await tools.commits.commit(request)
        try:
            await branches.protect(repository, PROTECTED_CANARIES, like=like)
        except AccessDeniedError:  # the key may not change rules; the fence was tried without one
            return ProtectedMerge.NOT_TRIED
        if not await _is_enforced(tools, clock, repository, target, head):
            return ProtectedMerge.NOT_TRIED
        metadata = {EXPECTED_HEAD: head}
        merge = MergeRequest(
            repository, staged, target, "perago canary", metadata, allow_empty=True
        )
        answer = await branches.merge(merge)
        if isinstance(answer, Merged):
            return ProtectedMerge.PASSES
        is_refused = isinstance(answer, MergeRefused)
        return ProtectedMerge.REFUSED if is_refused else ProtectedMerge.NOT_TRIED
    finally:
        with suppress(ServiceError):  # a rule that stays covers scratch branches of this check only
            await branches.unprotect(repository, PROTECTED_CANARIES)
        for name in (source, target):
            with suppress(ServiceError):  # garbage collection sweeps canaries older than an hour
                await branches.delete(repository, name)


async def _is_enforced(
    tools: FenceTools, clock: Clock, repository: RepositoryId, target: BranchName, head: CommitId
) -> bool:
    """Whether the server refuses to reset a branch to where it is, which changes nothing."""
    for _ in range(LOOKS_MAX):
        answer = await tools.branches.relocate(repository, target, head)
        if isinstance(answer, RelocationRefused):
            return answer.protected
        await clock.sleep(PAUSE_SECONDS)
    return False
