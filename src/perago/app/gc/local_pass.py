"""What dead workers left on the local disk, and what both passes of garbage collection share.

`sweep_directories` removes attempt directories whose owners are gone, but keeps those that a later
attempt may go on with. One that cannot be removed is reported and the others go on. `DeadRows`
hands back the rows that a dead worker of this root held: the markers of its directories name them,
and their locks say that it is dead. Without it Conductor notices when the response time-out is
over. The rest is for `remote_pass`: listings page by page, the ages from the settings, and the
owner of a staging branch by its name or by its commit. Which leftover may go is decided in
`perago.domain.retention`.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import final

from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.ending import end_of_lost
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.settings.settings import Settings
from perago.app.telemetry.listeners import facts_of, write
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    Current,
    WorkflowSnapshot,
    compare_row,
    compare_wide,
)
from perago.domain.checkpoints import key_of_checkpoint, read_checkpoint, workflow_of_key
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH, TASK_ID
from perago.domain.hand_back import Moment
from perago.domain.logical_execution import (
    BranchName,
    CommitRecord,
    RepositoryId,
    TagName,
    decision_tag,
    parse_attempt_mark,
    workflow_segment,
)
from perago.domain.names import StagingOwner, execution_time, staging_of
from perago.domain.retention import (
    AttemptStanding,
    Keep,
    Retention,
    RetentionTimes,
    WorkflowStanding,
    judge_attempt_directory,
    judge_checkpoint,
    standing_of,
    standing_of_task,
)
from perago.domain.retention import Owner as DirectoryOwner
from perago.ports.asking import pages
from perago.ports.conductor import HandBack, TaskQueue
from perago.ports.errors import ServiceError
from perago.ports.lakefs import Branches, Commits, TagRecord, Tags
from perago.ports.system import Clock
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover


@dataclass(frozen=True, slots=True)
class LocalPass:
    """What went, and what could not."""

    removed: Sequence[Path]
    failed: Sequence[tuple[Path, str]]


async def sweep_directories(
    directories: AttemptDirectories,
    times: RetentionTimes,
    queue: TaskQueue | None = None,
    *,
    dry_run: bool = False,
) -> LocalPass:
    """Remove every directory whose owner is gone; where the lock cannot tell, by age.

    Conductor is asked for directories with a kept outcome only: a later attempt may want them.
    """
    removed: list[Path] = []
    failed: list[tuple[Path, str]] = []
    for leftover in await directories.leftovers(older_than_seconds=0):
        if leftover.error is not None:
            failed.append((leftover.path, leftover.error))
            continue
        age = timedelta(seconds=leftover.age_seconds)
        task = await _standing_of_task(queue, leftover) if leftover.has_outcome else None
        verdict = judge_attempt_directory(leftover.owner, age, times, task)
        if isinstance(verdict, Keep):
            continue
        try:
            if not dry_run:
                await directories.remove(leftover.path)
        except Exception as error:  # noqa: BLE001 - bodies leave anything; the others go on
            failed.append((leftover.path, str(error) or type(error).__name__))
        else:
            removed.append(leftover.path)
    return LocalPass(removed, failed)


async def _standing_of_task(queue: TaskQueue | None, leftover: Leftover) -> AttemptStanding:
    """What Conductor says of the task; unknown where it does not answer."""
    if queue is None or leftover.marker is None:
        return AttemptStanding.UNKNOWN
    row = leftover.marker.attempt
    try:
        return standing_of_task(await queue.read_workflow(row.workflow_id), row.task_id)
    except ServiceError:
        return AttemptStanding.UNKNOWN


@dataclass(frozen=True, slots=True)
class GcTools:
    """The ports of a pass."""

    branches: Branches
    commits: Commits
    tags: Tags
    queue: TaskQueue
    clock: Clock


LOGGER = logging.getLogger("perago.worker")
HANDED_BACK = "handed back rows of a dead worker"
FAILED = "failed a row of a dead worker"
LEFT = "rows of a dead worker are left to their response time-out"
# One request, for which the start of the worker waits. Without it the row times out as before.
HAND_BACK_SECONDS_MAX = 10.0
# Of a Conductor that is down each of many questions may take a time-out. One lost request is no
# reason to leave the others.
UNANSWERED_IN_A_ROW_MAX = 3


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Finds and hands back what a dead worker of this root held."""

    ports: AttemptPorts
    tasks: Mapping[str, TaskDefinition]
    settings: AttemptSettings

    async def hand_back(self) -> None:
        """Hand them back, each on its own.

        Before the directories are swept, because a marker goes with its directory.
        """
        done: list[str] = []
        unanswered = 0
        for marker in await self._of_dead_owners():
            task_id = marker.attempt.task_id
            try:
                done += [task_id] if await self._hand_back(marker) else []
                unanswered = 0
            except Exception as error:  # noqa: BLE001 - it times out: no reason to end a worker
                write(LOGGER, logging.WARNING, LEFT, {"error": str(error), "task_id": task_id})
                unanswered += 1
            if unanswered >= UNANSWERED_IN_A_ROW_MAX:
                break
        if done:
            write(LOGGER, logging.INFO, HANDED_BACK, {"task_ids": done})

    async def _of_dead_owners(self) -> Sequence[AttemptMarker]:
        """The markers of dead workers; without a lock it is not known that an owner is dead."""
        try:
            found = await self.ports.directories.leftovers(older_than_seconds=0)
        except Exception as error:  # noqa: BLE001 - the rows time out: no reason to end a worker
            write(LOGGER, logging.WARNING, LEFT, {"error": str(error)})
            return ()
        gone = [each.marker for each in found if each.owner is DirectoryOwner.GONE]
        return [marker for marker in gone if marker is not None]

    async def _hand_back(self, marker: AttemptMarker) -> bool:
        """Hand one row back if it is still as the dead worker polled it."""
        task, queue = self.tasks.get(marker.attempt.task_type), self.ports.queue
        record = None if task is None else await as_it_was_polled(queue, marker.attempt)
        if task is None or record is None:  # a task of another worker is not asked for here
            return False
        dead = Attempt(task, record, marker.execution_id, self.settings)
        # The marker does not say how far the function came, and this is the stricter answer.
        dead.leftovers.moment = Moment.IN_FUNCTION
        # The name of the staging branch is in the marker before the branch is created. Without it
        # no request of the dead worker can still publish.
        may_publish = marker.staging_branch is not None
        why = f"worker {marker.owner_worker_id} died"
        return await give_back(queue, dead, why, may_publish=may_publish)


async def give_back(queue: TaskQueue, attempt: Attempt, why: str, *, may_publish: bool) -> bool:
    """Hand back a row without a worker, and say so in the log of its task; True if it was.

    One that came back too often is failed instead, with all reasons: its time-out would have none.
    """
    end = end_of_lost(attempt, why, may_publish=may_publish)
    if end is None:
        return False
    if isinstance(end, HandBack):
        await queue.hand_back(end, timeout_seconds=HAND_BACK_SECONDS_MAX)
    else:
        await queue.complete(end, timeout_seconds=HAND_BACK_SECONDS_MAX)
        facts = {**facts_of(attempt), "reason": end.reason}
        write(LOGGER, logging.WARNING, FAILED, facts)
    with suppress(ServiceError):  # the row has the reason, too
        await queue.log(attempt.row.task_id, end.reason or "")
    return isinstance(end, HandBack)


async def as_it_was_polled(queue: TaskQueue, row: AttemptSnapshot) -> AttemptRecord | None:
    """The row, unless it ended, timed out, or was handed to another worker.

    The row itself is read last: Conductor compares nothing, so what is not seen there can only
    happen between that answer and the hand back.
    """
    workflow = await queue.read_workflow(row.workflow_id)
    if not isinstance(compare_wide(row, workflow), Current):
        return None
    record = await queue.read_attempt(row.workflow_id, row.task_id)
    fresh = None if record is None else record.snapshot
    return record if isinstance(compare_row(row, fresh), Current) else None


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
# that runs from one that died. `--older-than` must not take the branches of a running one.
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
