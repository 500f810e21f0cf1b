"""Staging: the changes of a workspace as one commit on the attempt's private branch.

And the comparisons of commits: what one changes, and whether a merge made what it had to.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.patience import LAKEFS
from perago.domain import lakefs, paths
from perago.domain.attempt import AttemptSnapshot
from perago.domain.commit_metadata import NOOP, TRY, commit_message, try_metadata
from perago.domain.errors import PATHS_NAMED_MAX, FenceNotTrustedError, PublicationRefusedError
from perago.domain.names import is_staging_branch_of, scratch_branch
from perago.domain.outcome import StoredResult, split_result
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.asking import all_changes, pages
from perago.ports.errors import BranchExistsError, NothingToCommitError, OutcomeUnknownError
from perago.ports.lakefs import Change, ChangeKind, CommitRequest
from perago.ports.workspace import Materialised, Phase, StagingArea, TransferCounts

STAGED_COMMITS_MAX = 1000
"""One page of a walk. A result has at most 25 pieces below it; a Spark body may commit as well."""
FOREIGN_COMMIT = "PRG-F025"


def stored_result(target: Target, result: Mapping[str, object]) -> StoredResult:
    """The result as commits carry it, where a retry has to find it there."""
    decides = target.level.shape.decides_by_tag
    return split_result(result) if decides else StoredResult(lakefs.NO_METADATA)


@dataclass(frozen=True, slots=True)
class StagingBranch:
    """The private branch of an execution, open for what its attempt changes."""

    target: Target
    name: lakefs.BranchName

    @property
    def repository(self) -> lakefs.RepositoryId:
        """The repository of the target."""
        return self.target.workspace.repository

    @property
    def area(self) -> StagingArea:
        """Where the pipeline writes."""
        return StagingArea(self._at(self.target.workspace.ref), self.target.prefix)

    async def upload(self, materialised: Materialised, plan: SyncPlan) -> TransferCounts:
        """Bring a plan onto the branch; a repetition moves only what is not there yet."""
        left = plan

        async def transfer() -> TransferCounts:
            return await self.target.ports.lakefs.pipeline.transfer(materialised, left, self.area)

        async def look() -> TransferCounts | None:
            nonlocal left
            left = await self._not_there(plan)
            return None

        return await self.target.ports.patience.until_done(LAKEFS, "the upload", transfer, look)

    async def commit_pieces(self, stored: StoredResult) -> None:
        """Commit the pieces of a large result under the staged one; the first takes changes along.

        Under `settled` the commit carries the result, so that a retry can finish without the body.
        """
        for piece in stored.below:
            await self.commit(piece)

    async def commit_changes(
        self, stored: StoredResult, counts: TransferCounts
    ) -> lakefs.StagedReference:
        """Commit what was uploaded."""
        commit = await self.commit(stored.metadata, empty=False)
        moved = {"objects": counts.objects, "bytes": counts.bytes}
        facts = {"branch": self.name, "commit": commit, **moved}
        self.target.ports.progress.phase(
            Phase.STAGED, {**facts, "transfer_requests": counts.requests}
        )
        return self._at(commit)

    async def commit_written(self, stored: StoredResult, *, noop: bool) -> lakefs.StagedReference:
        """Commit what the task function wrote on the branch, or that it wrote nothing.

        It may be empty: the pieces of the result, or the body, may have committed the changes. The
        tree of the last commit is what is published; that of a no-op is never merged.
        """
        extra = {**stored.metadata, NOOP: "true"} if noop else stored.metadata
        commit = await self.commit(extra)
        facts = {"branch": self.name, "commit": commit, "noop": noop}
        self.target.ports.progress.phase(Phase.STAGED, facts)
        return self._at(commit)

    async def commit(
        self, extra: Mapping[str, str] = lakefs.NO_METADATA, *, empty: bool = True
    ) -> lakefs.CommitId:
        """Commit what is there; only changes that were uploaded may not be empty."""
        request = CommitRequest(
            repository=self.repository,
            branch=self.name,
            message=commit_message(self.target.attempt.row, TRY),
            metadata=try_metadata(self.target.identity, extra),
            allow_empty=empty,
        )
        return await commit_on_private_branch(self.target.attempt, request)

    def _at(self, commit: lakefs.CommitId) -> lakefs.StagedReference:
        return lakefs.StagedReference(self.repository, self.name, commit)

    async def _not_there(self, plan: SyncPlan) -> SyncPlan:
        """The plan without the objects that the branch has, by path, size and MD5.

        A deletion of what is gone changes nothing, so all of them stay. Spark's plans are tables on
        the disk that only its own pipeline reads: they are moved again as a whole.
        """
        if not isinstance(plan.upload, tuple):
            return plan
        prefix, list_page = self.target.prefix, self.target.ports.lakefs.objects.list_page
        listing = partial(
            list_page, self.repository, self.name, prefix=paths.listing_prefix(prefix)
        )
        listed = pages(lambda after: listing(after=after))
        there = {
            entry.path: (paths.md5_of_checksum(entry.checksum), entry.size)
            async for page in listed
            for entry in page.items
        }

        def is_missing(facts: FileFacts) -> bool:
            found = there.get(paths.object_path(prefix, facts.path))
            return found != (facts.checksum, facts.size)

        return SyncPlan(
            upload=tuple(facts for facts in plan.upload if is_missing(facts)),
            copy=tuple((facts, source) for facts, source in plan.copy if is_missing(facts)),
            delete=plan.delete,
        )


async def open_staging(target: Target) -> StagingBranch:
    """Record the name first: whatever dies after this line, GC finds the branch."""
    ports, attempt = target.ports, target.attempt
    workspace, name, leftovers = target.workspace, attempt.staging_branch, attempt.leftovers
    if leftovers.directory is not None:
        await ports.directories.record_staging(leftovers.directory, workspace.repository, name)
    leftovers.staging = (workspace.repository, name)
    ports.progress.phase(Phase.STAGING, {"repository": workspace.repository, "branch": name})
    await create_private_branch(ports, workspace.repository, name, workspace.ref)
    return StagingBranch(target, name)


async def create_private_branch(
    ports: AttemptPorts,
    repository: lakefs.RepositoryId,
    branch: lakefs.BranchName,
    source: lakefs.CommitId,
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


async def open_scratch(
    attempt: Attempt, repository: lakefs.RepositoryId, base: lakefs.CommitId
) -> tuple[lakefs.BranchName, bool]:
    """The scratch branch of this execution on a head, and whether it is new.

    A second round on the same head finds the branch of the first.
    """
    scratch = scratch_branch(attempt.staging_branch, base)
    is_new = (repository, scratch) not in attempt.leftovers.scratch
    if is_new:
        attempt.leftovers.scratch.append((repository, scratch))
        await create_private_branch(attempt.ports, repository, scratch, base)
    return scratch, is_new


async def commit_on_private_branch(attempt: Attempt, request: CommitRequest) -> lakefs.CommitId:
    """Commit; a commit without an answer is looked for at the head of its branch.

    Its metadata has the execution id, so it is this execution's. It is the one that was sent and
    none before it if its id never came in an answer.
    """
    ports, answered, sent = attempt.ports, attempt.leftovers.commits, False

    async def commit() -> lakefs.CommitId:
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

    async def look() -> lakefs.CommitId | None:
        if not sent:
            return None
        head = await ports.lakefs.branches.head(request.repository, request.branch)
        is_mine = request.metadata.items() <= head.metadata.items()
        return head.commit if is_mine and head.commit not in answered else None

    made = await ports.patience.until_done(LAKEFS, f"a commit on {request.branch}", commit, look)
    answered.add(made)
    return made


async def refuse_unless_on_input(
    ports: AttemptPorts, workspace: lakefs.WorkspaceReference, staged: lakefs.CommitId
) -> None:
    """The input is among the first parents: a merge of anything else is not the staged tree."""
    walk = await ports.lakefs.commits.first_parents(
        workspace.repository, staged, workspace.ref, commits_max=STAGED_COMMITS_MAX
    )
    if not walk.reached:
        text = f"staged commit {staged} is not based on the input commit {workspace.ref}"
        raise PublicationRefusedError(f"{text}; nothing was published", code=FOREIGN_COMMIT)


async def refuse_foreign_changes(
    ports: AttemptPorts, workspace: lakefs.WorkspaceReference, staged: lakefs.CommitId, prefix: str
) -> None:
    """It differs from the input below the prefix only, and in nothing reserved."""
    path = await first_difference_outside(
        ports, workspace.repository, workspace.ref, staged, prefix
    )
    if path is not None:
        text = f"staged commit {staged} changes {path}, which is outside prefix {prefix} or"
        raise PublicationRefusedError(
            f"{text} reserved; nothing was published", code=FOREIGN_COMMIT
        )


# Behind every path below a prefix, so that a listing goes on after the prefix. One such character
# may begin a name; no name that a person gives begins with four.
_END_OF_PREFIX = "\U0010ffff" * 4


async def first_difference_outside(
    ports: AttemptPorts,
    repository: lakefs.RepositoryId,
    left: lakefs.CommitId,
    right: lakefs.CommitId,
    prefix: str,
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
        return page.items[0].path if page.items else None

    inside = paths.listing_prefix(prefix)
    if paths.ACTIONS_PREFIX.startswith(inside) or inside.startswith(paths.ACTIONS_PREFIX):
        reserved = await first(below=paths.ACTIONS_PREFIX)
        if reserved is not None or not inside:
            return reserved
    before = await first()
    if before is None or not before.startswith(inside):
        return before
    return await first(after=inside + _END_OF_PREFIX)


async def changes_below(
    ports: AttemptPorts,
    repository: lakefs.RepositoryId,
    left: lakefs.CommitId,
    right: lakefs.CommitId,
    prefix: str,
) -> AsyncGenerator[Change]:
    """The difference that lakeFS sees below a prefix, in order of path; nothing reserved."""
    listed = all_changes(
        ports.lakefs.commits, repository, left, right, paths.listing_prefix(prefix)
    )
    async with aclosing(listed):
        async for change in listed:
            if not paths.is_reserved_object(change.path):
                yield change


async def find_removed(target: Target, staged: lakefs.CommitId) -> str | None:
    """The first object below the prefix that a staged commit removes.

    It is read from lakeFS and not handed on from the comparison, because a resumed attempt has
    compared nothing, and because a decision counts by what its commit is.
    """
    ports, repository, ref = target.ports, target.workspace.repository, target.workspace.ref
    async with aclosing(changes_below(ports, repository, ref, staged, target.prefix)) as changes:
        async for change in changes:
            if change.kind is ChangeKind.REMOVED:
                return change.path
    return None


@dataclass(frozen=True, slots=True)
class ExpectedMerge:
    """What a merge has to have made; `tree_of` is the commit whose tree it must have."""

    repository: lakefs.RepositoryId
    branch: lakefs.BranchName
    parents: tuple[lakefs.CommitId, ...]
    tree_of: lakefs.CommitId | None
    terminal: bool


async def check_merge(ports: AttemptPorts, ref: lakefs.CommitId, expected: ExpectedMerge) -> None:
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
    ports: AttemptPorts, made: lakefs.CommitRecord, expected: ExpectedMerge
) -> str | None:
    """In what a commit differs from the one whose tree it must have."""
    commits, tree_of = ports.lakefs.commits, expected.tree_of
    if tree_of is None:
        return None
    if (await commits.read(expected.repository, tree_of)).metarange == made.metarange:
        return None
    page = await commits.diff_page(
        expected.repository, tree_of, made.commit, prefix="", amount=PATHS_NAMED_MAX
    )
    if not page.items:  # the same tree, which lakeFS has written in other ranges
        return None
    names = ", ".join(change.path for change in page.items) + (", ..." if page.more else "")
    return f"{made.commit} differs from {tree_of}, which was to be published, in: {names}"


def refuse_foreign_branch(row: AttemptSnapshot, staged: lakefs.CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, row):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=FOREIGN_COMMIT)
