"""Whose is it: give rows, publications, branches and tags to the attempts that made them.

Rows come first, because they are the most certain. Names tell nearly everything else; what only a
commit tells is read, up to `READS_MAX`: a question must not become a request for each attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perago.app.gc.judging import is_own_commit
from perago.domain import attempt_history as known
from perago.domain import commit_metadata
from perago.domain.attempt import AttemptRecord
from perago.domain.checkpoints import key_of_checkpoint, workflow_of_key
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.logical_execution import (
    chain_hash,
    chain_of_key,
    decision_key,
    parse_attempt_mark,
    workflow_of_tag,
)
from perago.domain.names import is_staging_branch_of, owner_by_name, staging_of, workflow_segment
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import MissingError
from perago.ports.lakefs import Commits

# Of commits whose names do not tell enough. A question stays at some dozen requests, however many
# attempts the workflow has.
READS_MAX = 12
# Rows that Conductor works on itself. They have no worker and no attempt.
SYSTEM_TYPES = frozenset(
    (
        *("FORK", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION"),
        *("DO_WHILE", "SET_VARIABLE", "TERMINATE", "WAIT", "HUMAN", "SUB_WORKFLOW", "DYNAMIC"),
        *("START_WORKFLOW", "INLINE", "LAMBDA", "EVENT", "HTTP", "NOOP", "JSON_JQ_TRANSFORM"),
    )
)


@dataclass(slots=True)
class Found:
    """What the servers answered, before it is attributed to tasks."""

    missing: list[str] = field(default_factory=list[str])
    unanswered: list[str] = field(default_factory=list[str])
    records: dict[str, WorkflowRecord | None] = field(
        default_factory=dict[str, WorkflowRecord | None]
    )
    branches: list[known.BranchHistory] = field(default_factory=list[known.BranchHistory])
    staging: list[known.LeftBranch] = field(default_factory=list[known.LeftBranch])
    checkpoints: list[known.LeftBranch] = field(default_factory=list[known.LeftBranch])
    decisions: list[known.LeftTag] = field(default_factory=list[known.LeftTag])
    marks: list[known.LeftTag] = field(default_factory=list[known.LeftTag])
    replaced: list[known.LeftTag] = field(default_factory=list[known.LeftTag])

    @property
    def rows(self) -> list[AttemptRecord]:
        """The rows of all workflows that are attempts."""
        return [row for record in self.records.values() for row in rows_of(record)]


def rows_of(record: WorkflowRecord | None) -> Sequence[AttemptRecord]:
    """The rows that are attempts."""
    attempts = record.attempts if record else ()
    return [each for each in attempts if each.snapshot.task_type not in SYSTEM_TYPES]


@dataclass(slots=True)
class Attribution:
    """The tasks of the workflows that were found, and what belongs to none of their attempts."""

    found: Found
    commits: Commits
    tasks: dict[str, known.TaskHistory] = field(default_factory=dict[str, known.TaskHistory])
    left_over: list[known.LeftTag | known.LeftBranch] = field(
        default_factory=list[known.LeftTag | known.LeftBranch]
    )
    _reads: int = 0

    async def run(self) -> None:
        """Give each thing to its attempt, the most certain first."""
        for row in self.found.rows:
            key, snapshot = row.snapshot.logical_task_key, row.snapshot
            self._attempt(key, snapshot.task_id, snapshot.retry_count).row = row
        on_targets = [record for branch in self.found.branches for record in branch.commits]
        for record in on_targets:
            self._take_publication(record)
        targets = {record.commit for record in on_targets}
        for left in self.found.staging:
            await self._take_staging(left, targets)
        await self._take_decisions()
        for tag in self.found.replaced:
            await self._take_replaced(tag)
        for left in self.found.checkpoints:
            await self._take_checkpoint(left)
        makers = {
            record.commit: attempt.task_id
            for attempt in self._attempts()
            for record in attempt.publications
        }
        for attempt in self._attempts():
            attempt.output_by = makers.get(CommitId(attempt.output_ref or ""))

    def _attempts(self) -> list[known.AttemptEvidence]:
        return [attempt for task in self.tasks.values() for attempt in task.attempts]

    def _attempt(self, key: str, task_id: str, retry_count: int) -> known.AttemptEvidence:
        task = self.tasks.setdefault(key, known.TaskHistory(key))
        for attempt in task.attempts:
            if attempt.task_id == task_id:
                return attempt
        task.attempts.append(known.AttemptEvidence(task_id, key, retry_count))
        return task.attempts[-1]

    def _take_publication(self, record: CommitRecord) -> None:
        """A publication names its attempt, and the branch of the one that staged what it has.

        Commits of other writers name no task, and other workflows were not asked for.
        """
        said, attempt = record.metadata, self._attempt_of(record)
        if attempt is None:
            return
        attempt.published(record)
        owner = owner_by_name(BranchName(said.get(commit_metadata.STAGING_BRANCH, "")))
        staged = said.get(commit_metadata.STAGING_COMMIT)
        if owner is not None and staged is not None:
            stager = self._attempt(attempt.task_key, owner.task_id, owner.retry_count)
            stager.saw(owner.execution_id)
            stager.staged = CommitId(staged)
            stager.decided = stager.decided or commit_metadata.LOGICAL_EXECUTION_KEY in said

    async def _take_staging(self, left: known.LeftBranch, targets: set[CommitId]) -> None:
        """By the name of the branch; where Conductor's ids are no UUIDs, by its own commit."""
        owner, attempt = owner_by_name(left.branch), None
        if owner is not None:
            if owner.workflow_id not in self.found.records:
                return
            key = self._key_by_row(owner.workflow_id, left.branch, owner.task_id)
            key = key or f"{owner.workflow_id}/{owner.reference_name}/{owner.iteration}"
            attempt = self._attempt(key, owner.task_id, owner.retry_count)
            attempt.saw(owner.execution_id)
        else:
            record = await self._read(left.repository, left.head)
            if record is not None and is_own_commit(left.branch, record):
                attempt = self._attempt_of(record)
        if attempt is None:
            self.left_over.append(left)
            return
        attempt.branches.append(left)
        # A scratch branch holds no staged commit, and a branch that was just made has its input.
        began_at = {attempt.input_ref, *targets}
        if left.branch == staging_of(left.branch) and left.head not in began_at:
            attempt.staged = left.head

    def _key_by_row(self, workflow_id: str, branch: BranchName, task_id: str) -> str | None:
        """The task of a staging branch, whose name spells the reference name in its own way."""
        for row in rows_of(self.found.records.get(workflow_id)):
            mine = row.snapshot.task_id == task_id
            if mine and is_staging_branch_of(staging_of(branch), row.snapshot):
                return row.snapshot.logical_task_key
        return None

    async def _take_decisions(self) -> None:
        """By what was published, by the chain in the name, by the commit."""
        published = {
            record.metadata.get(commit_metadata.LOGICAL_EXECUTION_KEY, ""): task
            for task in self.tasks.values()
            for record in task.publications
        }
        staged = {
            attempt.staged: attempt for attempt in self._attempts() if attempt.staged is not None
        }
        segments, chains = self._segments(), self._chains()
        for decision in self.found.decisions:
            if workflow_of_tag(decision.tag) not in segments:
                continue
            key = decision_key(decision.tag)
            task = published.get(key) or chains.get(chain_of_key(key))
            maker = staged.get(decision.commit)
            # Only now, because the reads are few (READS_MAX).
            if maker is None and task is None:
                maker = self._attempt_of(await self._read(decision.repository, decision.commit))
            if maker is not None:
                maker.staged, maker.decided = decision.commit, True
                task = self.tasks[maker.task_key]
            if task is None:
                self.left_over.append(decision)
            else:
                task.decisions.append(decision)

    def _segments(self) -> frozenset[str]:
        return frozenset(map(workflow_segment, self.found.records))

    def _chains(self) -> dict[str, known.TaskHistory]:
        """The hash of every chain that the rows may count from; notes the tasks that were reset.

        A decision's name has the hash of its chain, so no commit has to be read to find its task.
        """
        found: dict[str, known.TaskHistory] = {}
        parsed = (parse_attempt_mark(each.tag) for each in self.found.marks)
        marks = [mark for mark in parsed if mark is not None]
        for task in self.tasks.values():
            for row in (each.row.snapshot for each in task.attempts if each.row is not None):
                first, now = chain_hash(row, row), chain_hash(row, row, marks)
                task.was_reset = task.was_reset or first != now
                found[first] = found[now] = task
        return found

    async def _take_checkpoint(self, left: known.LeftBranch) -> None:
        """By the id of its execution where another name tells whose that is; else by its commit."""
        key = key_of_checkpoint(left.branch)
        # A repository has the checkpoints of all its workflows. Those of a workflow that was not
        # asked for are not left over: their own workflow shows them.
        if key is None or workflow_of_key(key) not in self._segments():
            return
        execution = left.branch.rpartition("-")[2]
        attempt = next((each for each in self._attempts() if execution in each.executions), None)
        if attempt is None:
            attempt = self._attempt_of(await self._read(left.repository, left.head))
        if attempt is None:
            self.left_over.append(left)
        else:
            attempt.saw(execution)
            attempt.checkpoints.append(left)

    async def _take_replaced(self, tag: known.LeftTag) -> None:
        """The tag's name has the execution that replaced it, its commit the attempt of before."""
        execution = tag.tag.rpartition("-")[2]
        if any(execution in each.executions for each in self._attempts()):
            attempt = self._attempt_of(await self._read(tag.repository, tag.commit))
            if attempt is not None:
                attempt.replaced = tag

    def _attempt_of(self, record: CommitRecord | None) -> known.AttemptEvidence | None:
        """The attempt of one of the workflows that a commit names, if there is such a commit."""
        said: Mapping[str, str] = {} if record is None else record.metadata
        key = said.get(commit_metadata.LOGICAL_TASK_KEY, "")
        task_id = said.get(commit_metadata.TASK_ID, "")
        if not task_id or key.partition("/")[0] not in self.found.records:
            return None
        return self._attempt(key, task_id, commit_metadata.attempt_number(said) - 1)

    async def _read(self, repository: RepositoryId, commit: CommitId) -> CommitRecord | None:
        if self._reads >= READS_MAX:
            return None
        self._reads += 1
        try:
            return await self.commits.read(repository, commit)
        except MissingError:
            return None
