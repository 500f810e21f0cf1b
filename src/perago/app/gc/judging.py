"""What a pass over a repository judges by, and what it has done so far.

`PassSoFar` lists page by page, asks Conductor once for each workflow, acts on a verdict, and writes
it down. Ages come from the settings, the owner of a staging branch from its name or its commit.
`judge_checkpoint_branch` and `judge_held_run` read what their verdict needs. Which leftover may go
is decided in `perago.domain.retention`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from perago.app.settings.settings import Settings
from perago.domain import retention
from perago.domain.attempt import WorkflowSnapshot
from perago.domain.checkpoints import key_of_checkpoint, read_checkpoint, workflow_of_key
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH, TASK_ID
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.logical_execution import decision_tag, parse_attempt_mark
from perago.domain.names import (
    DECISION_TAG_PREFIX,
    StagingOwner,
    execution_time,
    staging_of,
    workflow_segment,
)
from perago.domain.run import RunKey, run_branch, workflow_of_run
from perago.ports import errors
from perago.ports.asking import pages
from perago.ports.conductor import TaskQueue
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import TagRecord
from perago.ports.system import Clock

NOT_OURS = "Perago makes no such names"
# A million tags or branches, because a pass holds what it lists in memory. What follows after them
# is told as a listing that failed.
PAGES_MAX = 1000
# Of a Conductor that is down each of many questions may take a time-out. One lost request is no
# reason to leave the others.
UNANSWERED_IN_A_ROW_MAX = 3
# A check of the fence takes seconds, and its branches have no lock: only their age tells a check
# that runs from one that died. `--older-than` must not take the branches of a running one. Ten
# minutes are far above seconds; branches of a dead check stay that long at least, and do no harm.
CHECK_TAKES_MAX = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Judged:
    """One leftover and what was decided about it; `error` when that could not be done."""

    kind: str
    name: str
    removed: bool
    reason: str
    error: str | None = None


def retention_times(settings: Settings) -> retention.RetentionTimes:
    """Ages by kind; those without a setting have their defaults."""
    return retention.RetentionTimes(
        attempt_directory=settings.workspace_gc_ttl,
        staging_branch=settings.gc_staging_ttl,
        decision=settings.gc_tag_ttl,
        run=settings.gc_run_ttl,
    )


def one_age(age: timedelta) -> retention.RetentionTimes:
    """`--older-than`: one age for every kind, except that a check under way is not disturbed."""
    return retention.RetentionTimes(age, age, age, age, canary=max(age, CHECK_TAKES_MAX), run=age)


def scheduled_of(mark: TagName) -> int:
    """The scheduled time in a mark's name, in milliseconds."""
    parsed = parse_attempt_mark(mark)
    return parsed.scheduled_time if parsed else 0


def is_own_commit(branch: BranchName, head: CommitRecord) -> bool:
    """Whether the head was committed on this branch, and is not just where it began.

    A branch begins at the input of its attempt, which is often another task's publication: that
    commit's metadata says nothing of this branch.
    """
    return head.metadata.get(STAGING_BRANCH) == staging_of(branch)


def owner_by_commit(branch: BranchName, head: CommitRecord) -> StagingOwner | None:
    """The owner that the branch's own commit tells."""
    workflow, task = workflow_in(head), head.metadata.get(TASK_ID, "")
    if workflow and task and is_own_commit(branch, head):
        return StagingOwner(workflow, task)
    return None


def workflow_in(record: CommitRecord) -> str:
    """The id of the workflow that made a commit; empty where it names none."""
    return record.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]


@dataclass(slots=True)
class PassSoFar:
    """The services, the repository, the ages, and a line for each leftover that was judged."""

    lakefs: LakeFSInstallation
    queue: TaskQueue
    clock: Clock
    repository: RepositoryId
    times: retention.RetentionTimes
    dry_run: bool = False
    judged: list[Judged] = field(default_factory=list[Judged])
    gone: set[str] = field(default_factory=set[str])
    """What this pass has removed, or would have; only names of what was there."""
    _asked: dict[str, WorkflowSnapshot | None] = field(
        default_factory=dict[str, WorkflowSnapshot | None]
    )
    _unanswered: int = 0

    async def ask(self, workflow_id: str) -> WorkflowSnapshot | None:
        """Once for each workflow; a Conductor that does not answer is soon asked no more."""
        if workflow_id in self._asked:
            return self._asked[workflow_id]
        if self._unanswered >= UNANSWERED_IN_A_ROW_MAX:
            text = f"not asked: Conductor did not answer {self._unanswered} requests in a row"
            raise errors.UnavailableError(text)
        try:
            self._asked[workflow_id] = await self.queue.read_workflow(workflow_id)
        except errors.UnavailableError:
            self._unanswered += 1
            raise
        self._unanswered = 0
        return self._asked[workflow_id]

    async def work_on(
        self, kind: str, names: Iterable[str], work: Callable[[], Awaitable[None]]
    ) -> None:
        """Do what needs answers; without one it fails for all these names, and the pass goes on."""
        try:
            await work()
        except errors.RepositoryMissingError:
            raise
        except errors.BranchMissingError:
            return  # its attempt or another pass removed it meanwhile
        except errors.ServiceError as error:
            self.failed(kind, names, error)

    async def settle(
        self,
        kind: str,
        name: str,
        verdict: retention.Retention,
        remove: Callable[[], Awaitable[str | None]],
    ) -> None:
        """Act on a verdict, and write it down; `remove` answers why it stays after all."""
        if isinstance(verdict, retention.Keep):
            self.kept(kind, name, verdict.reason)
            return
        try:
            stays = None if self.dry_run else await remove()
        except errors.ServiceError as error:
            self.failed(kind, [name], error)
            return
        if stays is None:
            self.gone.add(name)
            self.judged.append(Judged(kind, name, removed=True, reason=verdict.reason))
        else:
            self.kept(kind, name, stays)

    async def settle_tag(self, kind: str, tag: TagName, verdict: retention.Retention) -> None:
        """Act on a verdict about a tag."""
        delete = partial(self.lakefs.tags.delete, self.repository, tag)
        await self.settle(kind, tag, verdict, delete)

    async def settle_branch(
        self, kind: str, branch: BranchName, verdict: retention.Retention
    ) -> None:
        """Act on a verdict about a branch."""
        delete = partial(self.lakefs.branches.delete, self.repository, branch)
        await self.settle(kind, branch, verdict, delete)

    def kept(self, kind: str, name: str, reason: str) -> None:
        """Note what stays."""
        self.judged.append(Judged(kind, name, removed=False, reason=reason))

    def failed(self, kind: str, names: Iterable[str], error: errors.ServiceError) -> None:
        """Note what could not be judged or removed."""
        text = str(error)
        self.judged += [Judged(kind, name, removed=False, reason="", error=text) for name in names]

    async def tags(self, prefix: str) -> AsyncIterator[TagRecord]:
        """Tags that start with `prefix`, in order."""
        listing = partial(self.lakefs.tags.list_page, self.repository, prefix)
        async for page in pages(listing, pages_max=PAGES_MAX):
            for tag in page.items:
                yield tag

    async def branches(self, prefix: str) -> AsyncIterator[BranchName]:
        """Names of private branches that start with `prefix`, in order."""
        listing = partial(self.lakefs.branches.list_page, self.repository, prefix, show_hidden=True)
        async for page in pages(listing, pages_max=PAGES_MAX):
            for name, _ in page.items:
                yield name

    def since(self, seconds: float) -> timedelta:
        """How long ago it was, also where clocks differ; of seconds since 1970."""
        return max(self.clock.now() - datetime.fromtimestamp(seconds, UTC), timedelta(0))

    def age_of(self, moment: datetime | None) -> timedelta | None:
        """How long ago it was, if it is known when."""
        return None if moment is None else self.since(moment.timestamp())


async def judge_checkpoint_branch(so_far: PassSoFar, branch: BranchName) -> retention.Retention:
    """What may become of a checkpoint; the branch's name tells its logical execution."""
    key = key_of_checkpoint(branch)
    if key is None:
        return retention.Keep(NOT_OURS)
    lakefs, repository = so_far.lakefs, so_far.repository
    head = await lakefs.branches.head(repository, branch)
    decision = await lakefs.tags.read(repository, decision_tag(key))
    segment = workflow_of_key(key)
    # A name holds a hash of an odd workflow id. Then only the commit tells the id itself.
    written = workflow_in(head)
    workflow = await so_far.ask(written if workflow_segment(written) == segment else segment)
    checkpoint = read_checkpoint(head)
    age = so_far.age_of(execution_time(branch) if checkpoint is None else checkpoint.taken_at)
    return retention.judge_checkpoint(
        retention.standing_of(workflow), age, so_far.times, decided=decision is not None
    )


async def judge_held_run(
    so_far: PassSoFar, key: RunKey, base: CommitId | None
) -> retention.Retention:
    """What may become of a run that was not published, as far as this pass knows."""
    workflow = await so_far.ask(workflow_of_run(key))
    standing = retention.standing_of(workflow)
    if standing is retention.WorkflowStanding.LIVE:
        return retention.judge_run(standing, None, so_far.times, decided=False)
    head: CommitRecord | None = None
    with suppress(errors.BranchMissingError):  # its finish has published and removed it
        head = await so_far.lakefs.branches.head(so_far.repository, run_branch(key))
    age = await _age_of_run(so_far, workflow, head, base)
    decided = head is not None and await _is_decided(so_far, key, head.commit)
    return retention.judge_run(standing, age, so_far.times, decided=decided)


async def _is_decided(so_far: PassSoFar, key: RunKey, head: CommitId) -> bool:
    """Whether a finish has decided to publish the run, and a retry of it may still do so."""
    async for tag in so_far.tags(f"{DECISION_TAG_PREFIX}{workflow_of_run(key)}-"):
        if tag.commit == head and tag.name not in so_far.gone:
            return True
    return False


async def _age_of_run(
    so_far: PassSoFar,
    workflow: WorkflowSnapshot | None,
    head: CommitRecord | None,
    base: CommitId | None,
) -> timedelta | None:
    """Since the end of the workflow, else since the last publication of a task of the run.

    Not since the base: the commit on which a run begins may be years old. Where the run branch
    and the workflow are gone, the tag protects nothing but a begin between its two requests,
    which Conductor knows. Without an age, such tags would stay for ever.
    """
    if workflow is not None and workflow.ended_at:
        return so_far.since(workflow.ended_at / 1000)
    if base is None:
        return None
    if head is not None:
        return None if head.commit == base else so_far.since(head.created_at)
    if workflow is not None:
        return None
    return so_far.since((await so_far.lakefs.commits.read(so_far.repository, base)).created_at)
