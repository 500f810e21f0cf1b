"""Staging: the changes of a workspace as one commit on the attempt's private branch.

And the comparisons of commits: what one changes, and whether a merge made what it had to.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.patience import LAKEFS
from perago.domain.attempt import AttemptSnapshot
from perago.domain.commit_metadata import NOOP, TRY, commit_message, try_metadata
from perago.domain.errors import FenceNotTrustedError, PublicationRefusedError
from perago.domain.logical_execution import (
    NO_METADATA,
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    StagedReference,
    WorkspaceReference,
    is_staging_branch_of,
)
from perago.domain.outcome import split_result
from perago.domain.paths import (
    ACTIONS_PREFIX,
    is_reserved_object,
    listing_prefix,
    md5_of_checksum,
    object_path,
)
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.asking import all_changes, pages
from perago.ports.errors import BranchExistsError, NothingToCommitError, OutcomeUnknownError
from perago.ports.lakefs import Change, ChangeKind, CommitRequest
from perago.ports.workspace import Materialised, Phase, StagingArea, TransferCounts


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
    counts = await upload(ports, materialised, plan, area)
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
    """Commit what the task function wrote on an open branch, if anything, without metadata."""
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
    """Commit what the task function wrote on an open branch, or that it wrote nothing.

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
    await create_private_branch(ports, workspace.repository, branch, workspace.ref)
    return branch


async def create_private_branch(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName, source: CommitId
) -> None:
    """Create a branch whose name holds the execution id.

    Only this execution gives that name. So if it exists after a creation without an answer, that
    creation has arrived.
    """
    sent = False

    async def create() -> None:
        nonlocal sent
        try:
            await ports.lakefs.branches.create(repository, branch, source, hidden=True)
        except OutcomeUnknownError:
            sent = True
            raise
        except BranchExistsError:
            if not sent:
                raise

    await ports.patience.until_done(LAKEFS, f"branch {branch}", create)


async def upload(
    ports: AttemptPorts, materialised: Materialised, plan: SyncPlan, area: StagingArea
) -> TransferCounts:
    """Bring a plan onto the private branch; a repetition moves only what is not there yet."""
    left = plan

    async def transfer() -> TransferCounts:
        return await ports.lakefs.pipeline.transfer(materialised, left, area)

    async def look() -> TransferCounts | None:
        nonlocal left
        left = await _not_there(ports, plan, area)
        return None

    return await ports.patience.until_done(LAKEFS, "the upload", transfer, look)


async def _not_there(ports: AttemptPorts, plan: SyncPlan, area: StagingArea) -> SyncPlan:
    """The plan without the objects that the branch has, by path, size and MD5.

    A deletion of what is gone changes nothing, so all of them stay. Spark's plans are tables on
    the disk that only its own pipeline reads: they are moved again as a whole.
    """
    if not isinstance(plan.upload, tuple):
        return plan
    staged, outer = area.staged, listing_prefix(area.prefix)
    listed = pages(
        lambda after: ports.lakefs.objects.list_page(
            staged.repository, staged.branch, prefix=outer, after=after
        )
    )
    there = {
        entry.path: (md5_of_checksum(entry.checksum), entry.size)
        async for page in listed
        for entry in page.entries
    }

    def is_missing(facts: FileFacts) -> bool:
        found = there.get(object_path(area.prefix, facts.path))
        return found != (facts.checksum, facts.size)

    return SyncPlan(
        upload=tuple(facts for facts in plan.upload if is_missing(facts)),
        copy=tuple((facts, source) for facts, source in plan.copy if is_missing(facts)),
        delete=plan.delete,
    )


async def commit_on_private_branch(
    ports: AttemptPorts, attempt: Attempt, request: CommitRequest
) -> CommitId:
    """Commit; a commit without an answer is looked for at the head of its branch.

    Its metadata has the execution id, so it is this execution's. It is the one that was sent and
    none before it if its id never came in an answer.
    """
    answered, sent = attempt.leftovers.commits, False

    async def commit() -> CommitId:
        nonlocal sent
        try:
            return await ports.lakefs.commits.commit(request)
        except OutcomeUnknownError:
            sent = True
            raise
        except NothingToCommitError:
            # The first request may have arrived between the look and the second one.
            found = await look()
            if found is None:
                raise
            return found

    async def look() -> CommitId | None:
        if not sent:
            return None
        head = await ports.lakefs.branches.head(request.repository, request.branch)
        is_mine = request.metadata.items() <= head.metadata.items()
        return head.commit if is_mine and head.commit not in answered else None

    made = await ports.patience.until_done(LAKEFS, f"a commit on {request.branch}", commit, look)
    answered.add(made)
    return made


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
    return await commit_on_private_branch(ports, attempt, request)


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


# Behind every path below a prefix, so that a listing goes on after the prefix. One such character
# may begin a name; no name that a person gives begins with four.
_END_OF_PREFIX = "\U0010ffff" * 4


async def first_difference_outside(
    ports: AttemptPorts, repository: RepositoryId, left: CommitId, right: CommitId, prefix: str
) -> str | None:
    """An object outside the prefix, or a reserved one, that differs; None if there is none.

    Asks only before and behind the prefix, and for reserved objects inside, so the answer costs
    the same however much differs inside. The reserved folder may be inside the prefix, as in `/`,
    or the prefix inside it.
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
    commits = ports.lakefs.commits
    listed = all_changes(commits, workspace.repository, workspace.ref, staged, outer)
    async with aclosing(listed):
        async for change in listed:
            if not is_reserved_object(change.path):
                yield change


async def find_removed(ports: AttemptPorts, target: Target, staged: CommitId) -> str | None:
    """The first object below the prefix that a staged commit removes.

    It is read from lakeFS and not handed on from the comparison, because a resumed attempt has
    compared nothing, and because a decision counts by what its commit is.
    """
    async with aclosing(staged_changes(ports, target, staged)) as changes:
        async for change in changes:
            if change.kind is ChangeKind.REMOVED:
                return change.path
    return None


DIFFERENCES_NAMED_MAX = 5  # paths are long, and Conductor gets 500 characters of the reason


@dataclass(frozen=True, slots=True)
class ExpectedMerge:
    """What a merge has to have made; `tree_of` is the commit whose tree it must have."""

    repository: RepositoryId
    branch: BranchName
    parents: tuple[CommitId, ...]
    tree_of: CommitId | None
    terminal: bool


async def check_merge(ports: AttemptPorts, ref: CommitId, expected: ExpectedMerge) -> None:
    """Fail the attempt if the server did not run the fence, or did not take exactly the tree.

    The publication stands all the same. Without its fence the repository counts as unfenced.
    """
    made = await ports.lakefs.commits.read(expected.repository, ref)
    if made.parents == expected.parents:
        wrong, code = await _difference(ports, made, expected), "PRG-F024"
    else:
        ports.lakefs.trust.distrust(expected.repository)
        found = f"parents of {ref} are {made.parents}, expected {expected.parents}"
        wrong, code = f"fence did not run: {found}", "PRG-F023"
    if wrong is None:
        return
    command = f"`perago fence verify {expected.repository} {expected.branch}`"
    text = f"{wrong}; the commit stays on the branch: look at it, and run {command}"
    raise FenceNotTrustedError(text, code=code, terminal=expected.terminal)


async def _difference(
    ports: AttemptPorts, made: CommitRecord, expected: ExpectedMerge
) -> str | None:
    """In what a commit differs from the one whose tree it must have."""
    commits, tree_of = ports.lakefs.commits, expected.tree_of
    if tree_of is None:
        return None
    if (await commits.read(expected.repository, tree_of)).metarange == made.metarange:
        return None
    page = await commits.diff_page(
        expected.repository, tree_of, made.commit, prefix="", amount=DIFFERENCES_NAMED_MAX
    )
    if not page.changes:  # the same tree, which lakeFS has written in other ranges
        return None
    names = ", ".join(change.path for change in page.changes) + (", ..." if page.more else "")
    return f"{made.commit} differs from {tree_of}, which was to be published, in: {names}"


def refuse_foreign_branch(row: AttemptSnapshot, staged: CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, row):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)
