"""Staging: the changes of a workspace as one commit on the attempt's private branch."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.domain.attempt import AttemptSnapshot
from perago.domain.commit_metadata import (
    NOOP,
    TRY,
    commit_message,
    try_metadata,
)
from perago.domain.errors import (
    PublicationRefusedError,
)
from perago.domain.logical_execution import (
    NO_METADATA,
    BranchName,
    CommitId,
    RepositoryId,
    StagedReference,
    WorkspaceReference,
    is_staging_branch_of,
)
from perago.domain.outcome import split_result
from perago.domain.paths import ACTIONS_PREFIX, is_reserved_object, listing_prefix
from perago.domain.sync_plan import SyncPlan
from perago.ports.asking import pages
from perago.ports.lakefs import Change, ChangeKind, CommitRequest
from perago.ports.workspace import Materialised, Phase, StagingArea


async def stage_changes(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    materialised: Materialised,
    plan: SyncPlan,
    result: Mapping[str, object],
) -> StagedReference:
    """Create the branch, bring the plan onto it, verify it, commit it.

    Under `settled` the commit carries the result, so that a retry can finish without the body.
    """
    own, below = _stored(target, result)
    branch = await open_staging(ports, attempt, target)
    await _commit_below(ports, attempt, target, branch, below)
    workspace = target.workspace
    area = StagingArea(StagedReference(workspace.repository, branch, workspace.ref), target.prefix)
    counts = await ports.lakefs.pipeline.transfer(materialised, plan, area)
    await ports.lakefs.pipeline.verify(materialised, plan, area)
    commit = await _commit(ports, attempt, target, branch, own, empty=False)
    facts = {
        "branch": branch,
        "commit": commit,
        "objects": counts.objects,
        "bytes": counts.bytes,
        "transfer_requests": counts.requests,
    }
    ports.progress.phase(Phase.STAGED, facts)
    return StagedReference(workspace.repository, branch, commit)


async def stage_nothing(
    ports: AttemptPorts, attempt: Attempt, target: Target, result: Mapping[str, object]
) -> StagedReference:
    """The decision of an unchanged workspace: an empty commit that is never merged."""
    own, below = _stored(target, result)
    branch = await open_staging(ports, attempt, target)
    await _commit_below(ports, attempt, target, branch, below)
    commit = await _commit(ports, attempt, target, branch, {**own, NOOP: "true"}, empty=True)
    ports.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": True})
    return StagedReference(target.workspace.repository, branch, commit)


async def commit_plainly(
    ports: AttemptPorts, attempt: Attempt, target: Target, branch: BranchName
) -> CommitId:
    """Commit what somebody else wrote on an open branch, if anything, without saying more."""
    return await _commit(ports, attempt, target, branch, NO_METADATA, empty=True)


async def commit_pieces(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    result: Mapping[str, object],
) -> None:
    """Commit the pieces of a large result on an open branch; the first takes changes along."""
    _, below = _stored(target, result)
    await _commit_below(ports, attempt, target, branch, below)


async def commit_written(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    result: Mapping[str, object],
    *,
    noop: bool,
) -> StagedReference:
    """Commit what somebody else wrote on an open branch, or that nothing was written.

    It may be empty: the pieces of the result, or the body, may have committed the changes. The
    tree of the last commit is what is published.
    """
    own, _ = _stored(target, result)
    extra = {**own, NOOP: "true"} if noop else own
    commit = await _commit(ports, attempt, target, branch, extra, empty=True)
    ports.progress.phase(Phase.STAGED, {"branch": branch, "commit": commit, "noop": noop})
    return StagedReference(target.workspace.repository, branch, commit)


def _stored(
    target: Target, result: Mapping[str, object]
) -> tuple[Mapping[str, str], Sequence[Mapping[str, str]]]:
    if not target.level.shape.decides_by_tag:
        return NO_METADATA, ()
    stored = split_result(result)
    return stored.metadata, stored.below


async def open_staging(ports: AttemptPorts, attempt: Attempt, target: Target) -> BranchName:
    """Record the name first: whatever dies after this line, GC finds the branch."""
    workspace = target.workspace
    branch = attempt.staging_branch
    if attempt.leftovers.directory is not None:
        await ports.directories.record_staging(
            attempt.leftovers.directory, workspace.repository, branch
        )
    attempt.leftovers.staging = (workspace.repository, branch)
    ports.progress.phase(Phase.STAGING, {"repository": workspace.repository, "branch": branch})
    await ports.lakefs.branches.create(workspace.repository, branch, workspace.ref)
    return branch


async def _commit_below(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    below: Sequence[Mapping[str, str]],
) -> None:
    """Pieces of a large result stand in empty commits under the staged one."""
    for piece in below:
        await _commit(ports, attempt, target, branch, piece, empty=True)


async def _commit(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    branch: BranchName,
    extra: Mapping[str, str],
    *,
    empty: bool,
) -> CommitId:
    """Commit what is there; only a no-op and the pieces of a result may be empty."""
    request = CommitRequest(
        repository=target.workspace.repository,
        branch=branch,
        message=commit_message(attempt.row, TRY),
        metadata=try_metadata(target.identity(attempt), extra),
        allow_empty=empty,
    )
    return await ports.lakefs.commits.commit(request)


STAGED_COMMITS_MAX = 1000
"""One page of a walk. A result has at most 25 pieces below it; a Spark body may commit as well."""

CODE = "PRG-F025"


async def refuse_unless_on_input(
    ports: AttemptPorts, workspace: WorkspaceReference, staged: CommitId
) -> None:
    """The input is among the first parents: a merge of anything else is not the staged tree."""
    walk = await ports.lakefs.commits.first_parents(
        workspace.repository, staged, workspace.ref, commits_max=STAGED_COMMITS_MAX
    )
    if not walk.reached:
        text = f"staged commit {staged} is not based on the input commit {workspace.ref}"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


async def refuse_foreign_changes(
    ports: AttemptPorts, workspace: WorkspaceReference, staged: CommitId, prefix: str
) -> None:
    """It differs from the input below the prefix only, and in nothing reserved."""
    path = await first_difference_outside(
        ports, workspace.repository, workspace.ref, staged, prefix
    )
    if path is not None:
        text = f"staged commit {staged} changes {path}, which is outside prefix {prefix} or"
        raise PublicationRefusedError(f"{text} reserved; nothing was published", code=CODE)


# Behind every path below a prefix that anybody writes; listings go on after it.
_END_OF_PREFIX = "\U0010ffff" * 4


async def first_difference_outside(
    ports: AttemptPorts, repository: RepositoryId, left: CommitId, right: CommitId, prefix: str
) -> str | None:
    """An object that differs though a task with this prefix has no business there, or None.

    Asks only before and behind the prefix, and for reserved objects inside, so the answer costs
    the same however much differs inside.
    """

    async def first(*, below: str = "", after: str = "") -> str | None:
        page = await ports.lakefs.commits.diff_page(
            repository, left, right, prefix=below, after=after, amount=1
        )
        return page.changes[0].path if page.changes else None

    inside = listing_prefix(prefix)
    if ACTIONS_PREFIX.startswith(inside) or inside.startswith(ACTIONS_PREFIX):
        reserved = await first(below=ACTIONS_PREFIX)
        if reserved is not None or not inside:
            return reserved
    before = await first()
    if before is None or not before.startswith(inside):
        return before
    return await first(after=inside + _END_OF_PREFIX)


async def staged_changes(
    ports: AttemptPorts, target: Target, staged: CommitId
) -> AsyncGenerator[Change]:
    """The difference that lakeFS sees below the prefix between the input and a staged commit."""
    workspace, outer = target.workspace, listing_prefix(target.prefix)
    listed = pages(
        lambda after: ports.lakefs.commits.diff_page(
            workspace.repository, workspace.ref, staged, prefix=outer, after=after
        )
    )
    async for page in listed:
        for change in page.changes:
            if not is_reserved_object(change.path):
                yield change


async def find_removed(ports: AttemptPorts, target: Target, staged: CommitId) -> str | None:
    """The first object below the prefix that a staged commit removes.

    It is read from lakeFS and not handed on from the comparison, because a resumed attempt has
    compared nothing, and because a decision counts by what its commit is.
    """
    removed = None
    async for change in staged_changes(ports, target, staged):
        if removed is None and change.kind is ChangeKind.REMOVED:
            removed = change.path
    return removed


def refuse_foreign_branch(row: AttemptSnapshot, staged: CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, row):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)
