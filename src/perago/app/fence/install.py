"""`perago fence install` and `remove`: the fence file of a branch, in one repository or in many.

The file is committed on a side branch and merged, because lakeFS lets merges pass where the target
is protected, and direct writes not. Each returns a report; the command line prints it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from perago.app.fence.trust import FenceTools, read_fence, removed_afterwards
from perago.domain import outcome
from perago.domain.commit_metadata import EXPECTED_HEAD, FENCE_OWNER, LOGICAL_TASK_KEY
from perago.domain.errors import PeragoError, PublicationRefusedError
from perago.domain.fence import FENCE_FILE, FenceState, recognise_fence
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.names import fence_branch
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import ServiceError
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import ObjectUpload
from perago.ports.system import Concurrency

CONTENT_TYPE = "application/x-yaml"
# Publications move the branch meanwhile, some a second. Each try takes a fraction of one, so ten
# in a row hardly lose. Without a limit a server that never merges would hold the command.
TRIES_MAX = 10
# Repositories at once: a thousand of them take minutes and not an hour, and the server has other
# work to do.
AT_ONCE = 8


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
    protected: bool
    protection_added: bool = False


@dataclass(frozen=True, slots=True)
class FenceFailure:
    """A repository in which nothing was installed, and why."""

    repository: RepositoryId
    branch: BranchName
    error: PeragoError | ServiceError


async def install_fence(
    tools: FenceTools, repository: RepositoryId, branch: BranchName, *, protect: bool = False
) -> FenceReport:
    """Bring the newest fence onto a branch; whatever stood there before is replaced.

    Protection comes first: from the first publication under `settled` on, a hard reset by a person
    would let retries publish again what it removed.
    """
    is_open = protect and not await tools.lakefs.branches.is_protected(repository, branch)
    if protect:
        await tools.lakefs.branches.protect(repository, branch)
    report = await _change(tools, repository, branch, FENCE_FILE)
    return replace(report, protection_added=is_open)


async def remove_fence(
    tools: FenceTools, repository: RepositoryId, branch: BranchName
) -> FenceReport:
    """Take the fence file off a branch."""
    return await _change(tools, repository, branch, None)


async def install_in_many(
    tools: FenceTools,
    concurrency: Concurrency,
    repositories: Sequence[RepositoryId],
    branch: BranchName,
    done: Callable[[FenceReport | FenceFailure], None],
    *,
    protect: bool = False,
) -> list[FenceReport | FenceFailure]:
    """Install in each; one that fails keeps none of the others from it.

    `done` is told of each as it ends. Whatever ends the command, a second one finishes the work:
    what has the newest fence is left alone.
    """

    async def install(repository: RepositoryId) -> FenceReport | FenceFailure:
        end: FenceReport | FenceFailure
        try:
            end = await install_fence(tools, repository, branch, protect=protect)
        except (PeragoError, ServiceError) as error:
            end = FenceFailure(repository, branch, error)
        done(end)
        return end

    return await concurrency.each(repositories, install, at_most=AT_ONCE)


async def _change(
    tools: FenceTools, repository: RepositoryId, branch: BranchName, wanted: bytes | None
) -> FenceReport:
    """Make the file of a branch what it has to be, on whatever head that stands by then.

    A merge whose answer is lost is looked for on the new head, and sent again where it is not: it
    names the head that it expects, so at most one of them lands.
    """
    protected = await tools.lakefs.branches.is_protected(repository, branch)
    first: bytes | None = None
    answer: outcome.MergeAnswer | None = None
    for _ in range(TRIES_MAX):
        head = (await tools.lakefs.branches.head(repository, branch)).commit
        found = await read_fence(tools, repository, head)
        first = found if answer is None else first
        if found != wanted:
            answer = await _publish(tools, repository, branch, head, wanted)
            if isinstance(
                answer,
                outcome.HeadMoved | outcome.MergeConflict | outcome.TooManyTries | outcome.NoAnswer,
            ):
                continue
            if not isinstance(answer, outcome.Merged):
                break
            head = answer.commit
        change = _kind_of(first, wanted)
        before = recognise_fence(first).state
        return FenceReport(repository, branch, change, head, before, protected)
    reason = f"lakeFS did not merge the fence into {branch} of {repository}: {answer}"
    raise PublicationRefusedError(reason)


def _kind_of(before: bytes | None, after: bytes | None) -> FenceChange:
    if before == after:
        return FenceChange.UNCHANGED
    if after is None:
        return FenceChange.REMOVED
    return FenceChange.INSTALLED if before is None else FenceChange.REPLACED


async def _publish(
    tools: FenceTools,
    repository: RepositoryId,
    branch: BranchName,
    head: CommitId,
    wanted: bytes | None,
) -> outcome.MergeAnswer:
    """Commit on a side branch and merge it: merges pass branch protection, writes do not.

    The fence in the source already compares the head for this very merge: a three-way merge onto
    another head may lose objects of others (ADR 4).
    """
    verb = "remove" if wanted is None else "install"
    text, owner = f"perago: {verb} the publication fence", {LOGICAL_TASK_KEY: FENCE_OWNER}
    side = fence_branch(tools.identities.new_execution_id())
    async with removed_afterwards(tools.lakefs.branches, repository, side):
        await tools.lakefs.branches.create(repository, side, head, hidden=True)
        await _write(tools, repository, side, wanted)
        commit = await tools.lakefs.commits.commit(CommitRequest(repository, side, text, owner))
        metadata = {**owner, EXPECTED_HEAD: head}
        return await tools.lakefs.branches.merge(
            MergeRequest(repository, commit, branch, text, metadata)
        )


async def _write(
    tools: FenceTools, repository: RepositoryId, side: BranchName, wanted: bytes | None
) -> None:
    if wanted is None:
        await tools.lakefs.objects.delete_many(repository, side, [FENCE_PATH])
        return
    with TemporaryDirectory() as folder:
        source = Path(folder) / "fence.yaml"
        source.write_bytes(wanted)
        upload = ObjectUpload(FENCE_PATH, source, content_type=CONTENT_TYPE)
        await tools.lakefs.objects.upload(repository, side, upload)
