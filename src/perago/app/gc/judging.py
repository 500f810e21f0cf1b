"""What a pass over a repository judges by: ages, owners, its notes, and two judges.

Listings come page by page, ages from the settings, the owner of a staging branch from its name or
its commit. `CheckpointJudge` and `RunJudge` read what their verdict needs. Which leftover may go is
decided in `perago.domain.retention`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import final

from perago.app.settings.settings import Settings
from perago.domain.attempt import WorkflowSnapshot
from perago.domain.checkpoints import key_of_checkpoint, read_checkpoint, workflow_of_key
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH, TASK_ID
from perago.domain.logical_execution import (
    DECISION_TAG_PREFIX,
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
    decision_tag,
    parse_attempt_mark,
    workflow_segment,
)
from perago.domain.names import StagingOwner, execution_time, staging_of
from perago.domain.retention import (
    Keep,
    Retention,
    RetentionTimes,
    WorkflowStanding,
    judge_checkpoint,
    judge_run,
    standing_of,
)
from perago.domain.run import RunKey, run_branch, workflow_of_run
from perago.ports.asking import pages
from perago.ports.conductor import TaskQueue
from perago.ports.errors import BranchMissingError, ServiceError
from perago.ports.lakefs import Branches, Commits, TagRecord, Tags
from perago.ports.system import Clock


@dataclass(frozen=True, slots=True)
class GcTools:
    """The ports of a pass."""

    branches: Branches
    commits: Commits
    tags: Tags
    queue: TaskQueue
    clock: Clock


@dataclass(frozen=True, slots=True)
class Judged:
    """One leftover and what was decided about it; `error` when that could not be done."""

    kind: str
    name: str
    removed: bool
    reason: str
    error: str | None = None


@dataclass(slots=True)
class WorkflowLeftovers:
    """The leftovers of one workflow, by kind."""

    decisions: list[TagRecord] = field(default_factory=list[TagRecord])
    branches: list[BranchName] = field(default_factory=list[BranchName])
    marks: list[TagRecord] = field(default_factory=list[TagRecord])

    def named(self) -> list[tuple[str, str]]:
        """Every leftover by kind and name."""
        return [
            *(("decision", tag.name) for tag in self.decisions),
            *(("staging branch", branch) for branch in self.branches),
            *(("attempt mark", tag.name) for tag in self.marks),
        ]


@dataclass(frozen=True, slots=True)
class Owner:
    """A workflow as names spell it, what Conductor says of it, and its decisions as listed."""

    segment: str
    workflow: WorkflowSnapshot | None
    decisions: tuple[TagRecord, ...] = ()

    @property
    def standing(self) -> WorkflowStanding:
        """Whether it lives."""
        return standing_of(self.workflow)


def scheduled_of(mark: TagName) -> int:
    """The scheduled time in a mark's name, in milliseconds."""
    parsed = parse_attempt_mark(mark)
    return parsed.scheduled_time if parsed else 0


NOT_OURS = "Perago makes no such names"


@final
@dataclass(frozen=True, slots=True)
class CheckpointJudge:
    """The checkpoints of one repository; `ask` asks Conductor once for each workflow."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    ask: Callable[[str], Awaitable[WorkflowSnapshot | None]]

    async def verdict(self, branch: BranchName) -> Retention:
        """What may become of a branch; its name tells its logical execution."""
        key = key_of_checkpoint(branch)
        if key is None:
            return Keep(NOT_OURS)
        head = await self.tools.branches.head(self.repository, branch)
        decision = await self.tools.tags.read(self.repository, decision_tag(key))
        segment = workflow_of_key(key)
        # A name holds a hash of an odd workflow id. Then only the commit tells the id itself.
        written = head.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]
        workflow = await self.ask(written if workflow_segment(written) == segment else segment)
        checkpoint = read_checkpoint(head)
        moment = execution_time(branch) if checkpoint is None else checkpoint.taken_at
        age = age_of(self.tools.clock, moment)
        return judge_checkpoint(
            standing_of(workflow), age, self.times, decided=decision is not None
        )


def age_of(clock: Clock, moment: datetime | float | None) -> timedelta | None:
    """How long ago something was, also where clocks differ; a number counts seconds since 1970."""
    if moment is None:
        return None
    then = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    return max(clock.now() - then, timedelta(0))


# A million tags or branches, because a pass holds what it lists in memory. What follows after them
# is told as a listing that failed.
PAGES_MAX = 1000


async def all_tags(tags: Tags, repository: RepositoryId, prefix: str) -> AsyncIterator[TagRecord]:
    """Tags that start with `prefix`, in order."""
    async for page in pages(partial(tags.list_page, repository, prefix), pages_max=PAGES_MAX):
        for tag in page.tags:
            yield tag


async def all_branches(
    branches: Branches, repository: RepositoryId, prefix: str
) -> AsyncIterator[BranchName]:
    """Names of private branches that start with `prefix`, in order."""
    listing = partial(branches.list_page, repository, prefix, show_hidden=True)
    async for page in pages(listing, pages_max=PAGES_MAX):
        for name in page.names:
            yield name


# A check of the fence takes seconds, and its branches have no lock: only their age tells a check
# that runs from one that died. `--older-than` must not take the branches of a running one. Ten
# minutes are far above seconds; branches of a dead check stay that long at least, and do no harm.
CHECK_TAKES_MAX = timedelta(minutes=10)


def retention_times(settings: Settings) -> RetentionTimes:
    """Ages by kind; those without a setting have their defaults."""
    return RetentionTimes(
        attempt_directory=settings.workspace_gc_ttl,
        staging_branch=settings.gc_staging_ttl,
        decision=settings.gc_tag_ttl,
        run=settings.gc_run_ttl,
    )


def one_age(age: timedelta) -> RetentionTimes:
    """`--older-than`: one age for every kind, except that a check under way is not disturbed."""
    return RetentionTimes(age, age, age, age, canary=max(age, CHECK_TAKES_MAX), run=age)


def is_own_commit(branch: BranchName, head: CommitRecord) -> bool:
    """Whether the head was committed on this branch, and is not just where it began.

    A branch begins at the input of its attempt, which is often another task's publication: that
    commit's metadata says nothing of this branch.
    """
    return head.metadata.get(STAGING_BRANCH) == staging_of(branch)


def owner_by_commit(branch: BranchName, head: CommitRecord) -> StagingOwner | None:
    """The owner that the branch's own commit tells."""
    workflow = head.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]
    task = head.metadata.get(TASK_ID, "")
    if workflow and task and is_own_commit(branch, head):
        return StagingOwner(workflow, task)
    return None


@dataclass(slots=True)
class PassSoFar:
    """The repository, the ages, and a line for each leftover that was judged."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    dry_run: bool = False
    judged: list[Judged] = field(default_factory=list[Judged])
    _gone: set[str] = field(default_factory=set[str])

    async def _settle(
        self, kind: str, name: str, verdict: Retention, remove: Callable[[], Awaitable[str | None]]
    ) -> None:
        """Act on a verdict, and write it down; `remove` answers why it stays after all."""
        if isinstance(verdict, Keep):
            self._kept(kind, name, verdict.reason)
            return
        try:
            stays = None if self.dry_run else await remove()
        except ServiceError as error:
            self._failed(kind, name, error)
            return
        if stays is None:
            self._gone.add(name)
            self.judged.append(Judged(kind, name, removed=True, reason=verdict.reason))
        else:
            self._kept(kind, name, stays)

    def _kept(self, kind: str, name: str, reason: str) -> None:
        self.judged.append(Judged(kind, name, removed=False, reason=reason))

    def _failed(self, kind: str, name: str, error: ServiceError) -> None:
        self.judged.append(Judged(kind, name, removed=False, reason="", error=str(error)))

    def _tag_gone(self, tag: TagName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.tags.delete(self.repository, tag)

    def _branch_gone(self, branch: BranchName) -> Callable[[], Awaitable[None]]:
        return lambda: self.tools.branches.delete(self.repository, branch)

    def _tags(self, prefix: str) -> AsyncIterator[TagRecord]:
        return all_tags(self.tools.tags, self.repository, prefix)

    def _names(self, prefix: str) -> AsyncIterator[BranchName]:
        return all_branches(self.tools.branches, self.repository, prefix)

    def _since(self, seconds: float) -> timedelta:
        return max(self.tools.clock.now() - datetime.fromtimestamp(seconds, UTC), timedelta(0))


@dataclass(frozen=True, slots=True)
class RunJudge:
    """The runs of one repository; `ask` asks Conductor once for each workflow."""

    tools: GcTools
    repository: RepositoryId
    times: RetentionTimes
    ask: Callable[[str], Awaitable[WorkflowSnapshot | None]]

    async def verdict(self, key: RunKey, base: CommitId | None, gone: Collection[str]) -> Retention:
        """What may become of a run; `gone` has the tags that this pass has removed."""
        workflow = await self.ask(workflow_of_run(key))
        standing = standing_of(workflow)
        if standing is WorkflowStanding.LIVE:
            return judge_run(standing, None, self.times, decided=False)
        head = await self._head(key)
        age = await self._age(workflow, head, base)
        decided = head is not None and await self._is_decided(key, head.commit, gone)
        return judge_run(standing, age, self.times, decided=decided)

    async def _head(self, key: RunKey) -> CommitRecord | None:
        try:
            return await self.tools.branches.head(self.repository, run_branch(key))
        except BranchMissingError:
            return None  # its finish has published and removed it

    async def _is_decided(self, key: RunKey, head: CommitId, gone: Collection[str]) -> bool:
        """Whether a finish has decided to publish the run, and a retry of it may still do so."""
        prefix = f"{DECISION_TAG_PREFIX}{workflow_of_run(key)}-"
        async for tag in all_tags(self.tools.tags, self.repository, prefix):
            if tag.commit == head and tag.name not in gone:
                return True
        return False

    async def _age(
        self, workflow: WorkflowSnapshot | None, head: CommitRecord | None, base: CommitId | None
    ) -> timedelta | None:
        """Since the end of the workflow, else since the last publication of a task of the run.

        Not since the base: the commit on which a run begins may be years old. Where the run branch
        and the workflow are gone, the tag protects nothing but a begin between its two requests,
        which Conductor knows. Without an age, such tags would stay for ever.
        """
        clock = self.tools.clock
        if workflow is not None and workflow.ended_at:
            return age_of(clock, workflow.ended_at / 1000)
        if base is None:
            return None
        if head is not None:
            return None if head.commit == base else age_of(clock, head.created_at)
        if workflow is not None:
            return None
        return age_of(clock, (await self.tools.commits.read(self.repository, base)).created_at)
