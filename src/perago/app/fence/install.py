"""`perago fence install`, `remove` and `verify`: the fence file of one branch.

The file is committed on a side branch and merged, because lakeFS lets merges pass where the target
is protected, and direct writes not. `verify_fence` reads the file and lets the canary try it on the
server. Each returns a report; the command line prints it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from perago.app.fence.trust import Canary
from perago.domain.commit_metadata import FENCE_OWNER, LOGICAL_TASK_KEY
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_FILE, FENCE_VERSION, FenceState, recognise_fence
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId
from perago.domain.names import fence_branch
from perago.domain.outcome import Merged
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import ObjectMissingError, ServiceError
from perago.ports.lakefs import Branches, CommitRequest, Commits, MergeRequest
from perago.ports.objects import Objects, ObjectUpload
from perago.ports.system import Identities

CONTENT_TYPE = "application/x-yaml"


class FenceChange(StrEnum):
    """What a command did to the fence file."""

    INSTALLED = "installed"
    REPLACED = "replaced"
    REMOVED = "removed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FenceReport:
    """The fence of a branch after a command, and the commit it stands in."""

    repository: RepositoryId
    branch: BranchName
    change: FenceChange
    commit: CommitId
    before: FenceState


@dataclass(frozen=True, slots=True)
class FenceTools:
    """The ports that the fence commands use."""

    branches: Branches
    commits: Commits
    objects: Objects
    identities: Identities


async def read_fence(tools: FenceTools, repository: RepositoryId, ref: str) -> bytes | None:
    """The bytes of the fence file at a reference, or None."""
    try:
        return await tools.objects.read(repository, ref, FENCE_PATH)
    except ObjectMissingError:
        return None


async def install_fence(
    tools: FenceTools, repository: RepositoryId, branch: BranchName
) -> FenceReport:
    """Bring the newest fence onto a branch; whatever stood there before is replaced."""
    head = await tools.branches.head(repository, branch)
    before = await read_fence(tools, repository, head.commit)
    state = recognise_fence(before).state
    if before == FENCE_FILE:
        return FenceReport(repository, branch, FenceChange.UNCHANGED, head.commit, state)
    async with _side_branch(tools, repository, head.commit) as side:
        with TemporaryDirectory() as folder:
            source = Path(folder) / "fence.yaml"
            source.write_bytes(FENCE_FILE)
            upload = ObjectUpload(FENCE_PATH, source, content_type=CONTENT_TYPE)
            await tools.objects.upload(repository, side, upload)
        text = "perago: install the publication fence"
        commit = await _publish(tools, repository, side, branch, text)
    change = FenceChange.INSTALLED if before is None else FenceChange.REPLACED
    return FenceReport(repository, branch, change, commit, state)


async def remove_fence(
    tools: FenceTools, repository: RepositoryId, branch: BranchName
) -> FenceReport:
    """Take the fence file off a branch."""
    head = await tools.branches.head(repository, branch)
    before = await read_fence(tools, repository, head.commit)
    state = recognise_fence(before).state
    if before is None:
        return FenceReport(repository, branch, FenceChange.UNCHANGED, head.commit, state)
    async with _side_branch(tools, repository, head.commit) as side:
        await tools.objects.delete_many(repository, side, [FENCE_PATH])
        text = "perago: remove the publication fence"
        commit = await _publish(tools, repository, side, branch, text)
    return FenceReport(repository, branch, FenceChange.REMOVED, commit, state)


@asynccontextmanager
async def _side_branch(
    tools: FenceTools, repository: RepositoryId, head: CommitId
) -> AsyncGenerator[BranchName]:
    side = fence_branch(tools.identities.new_execution_id())
    await tools.branches.create(repository, side, head, hidden=True)
    try:
        yield side
    finally:
        with suppress(ServiceError):  # garbage collection sweeps canaries older than an hour
            await tools.branches.delete(repository, side)


async def _publish(
    tools: FenceTools, repository: RepositoryId, side: BranchName, branch: BranchName, text: str
) -> CommitId:
    """Commit the side branch and merge it: merges pass branch protection, writes do not."""
    owner = {LOGICAL_TASK_KEY: FENCE_OWNER}
    commit = await tools.commits.commit(CommitRequest(repository, side, text, owner))
    answer = await tools.branches.merge(MergeRequest(repository, commit, branch, text, owner))
    if isinstance(answer, Merged):
        return answer.commit
    reason = f"lakeFS did not merge the fence into {branch}: {answer}"
    raise PublicationRefusedError(reason)


@dataclass(frozen=True, slots=True)
class FenceVerdict:
    """What a verification found; TRUSTED means that the server refused a wrong head just now."""

    repository: RepositoryId
    branch: BranchName
    head: CommitId
    state: FenceState
    version: int
    protected: bool

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
        if not self.protected:
            warnings.append(
                f"{self.branch} is not protected: after a hard reset by a person, retries publish"
                " again what the reset removed; protect the branch (publications pass, resets do"
                " not) and roll back with `lakectl branch revert`"
            )
        return tuple(warnings)


async def verify_fence(
    tools: FenceTools, canary: Canary, repository: RepositoryId, branch: BranchName
) -> FenceVerdict:
    """Read the file at the head, then try it: the server must refuse a wrong head."""
    head = await tools.branches.head(repository, branch)
    seen = recognise_fence(await read_fence(tools, repository, head.commit))
    state = seen.state
    if state is FenceState.TRUSTED and not await canary.refuses_wrong_head(repository, head.commit):
        state = FenceState.DEAD
    protected = await tools.branches.is_protected(repository, branch)
    return FenceVerdict(repository, branch, head.commit, state, seen.version, protected)
