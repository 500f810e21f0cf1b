"""What is known of a schedule that no server keeps: executions, runs, who is stale since when.

Compared and counted here anew, because the code that does the same is under test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from tests.simulation.actors import Actor
from tests.simulation.scene import Scene

from perago.adapters.memory.conductor_rows import TaskRow
from perago.domain.attempt import AttemptRecord, AttemptStatus, as_mapping
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.logical_execution import mark_of, parse_attempt_mark
from perago.domain.retention import RetentionTimes

DECISION_AGE = RetentionTimes().decision
Dispatched = tuple[str, int]  # task id and scheduled time: a rerun of a row is another one


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the team's function."""

    execution: int
    knob: object
    input: CommitId
    writes: bool


@dataclass(slots=True)
class Facts:
    """The bookkeeping of one schedule."""

    scene: Scene
    actors: Sequence[Actor]
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    handed_over: dict[str, int] = field(default_factory=dict[str, int])
    alive_since: int = 0
    """The step since which the workflow is not terminal."""
    _executions: dict[Dispatched, int] = field(default_factory=dict[Dispatched, int])
    _may_be: dict[int, int] = field(default_factory=dict[int, int])
    _reruns: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By task id: the execution that the newest rerun of a retry began, and the one before it."""
    _after_resets: dict[int, int] = field(default_factory=dict[int, int])
    """Executions that retry what was reset, and what that was."""
    _reset_at: timedelta = timedelta(0)
    _held: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _published: dict[CommitId, Run | None] = field(default_factory=dict[CommitId, Run | None])
    _resets: set[str] = field(default_factory=set[str])
    _reset_rows: set[Dispatched] = field(default_factory=set[Dispatched])
    _was_terminal: bool = False
    _count: int = 0

    def rows(self) -> Sequence[TaskRow]:
        """The rows that workers poll."""
        run = self.scene.conductor.state.runs[self.scene.workflow]
        return [row for row in run.rows.values() if row.is_queued_type]

    def look(self, step: int) -> None:
        """Conductor may have changed: who holds which row, and who is stale?"""
        terminal = self.scene.workflow_is_terminal
        if self._was_terminal and not terminal:
            self.alive_since = step
        self._was_terminal = terminal
        rows = self.rows()
        for row in rows:
            held = row.poll_count, row.scheduled_time
            if self._held.get(row.task_id) != held:
                self._held[row.task_id] = held
                self.handed_over[row.task_id] = step
        for actor in self.actors:
            if actor.record is None:
                continue
            if not terminal and _counts(actor.record, rows):
                actor.stale_since = None
            elif actor.stale_since is None:
                actor.stale_since = step

    def is_open_for_good(self, row: TaskRow) -> bool:
        """A rerun handed it out although a retry had made it good, and its attempt has died.

        Conductor waits for its end, and lets no lease of such a row expire.
        """
        if row.status.is_terminal or not row.retried:
            return False
        held = [
            each.report
            for each in self.actors
            if each.record is not None and each.record.snapshot.task_id == row.task_id
        ]
        return row.status is AttemptStatus.SCHEDULED or held[-1] is None

    def was_rerun(self, task_id: str) -> None:
        """An operator reran a row: it begins a new execution.

        Except where no process ever held the row: nothing on lakeFS tells then that it was rerun,
        and it resumes the decision of the attempt before it. Documented. Where a process held it
        and its mark is not there, it may be either.
        """
        row = self.scene.conductor.state.row(task_id)
        held = [known for known in self._executions if known[0] == task_id]
        if not held and row.retried_task_id is not None:
            return
        self._executions[task_id, row.scheduled_time] = made = self._new()
        if row.retry_count:
            self._reruns[task_id] = made, self._executions[held[-1]]
            self.marks_may_be_gone()

    def marks_may_be_gone(self) -> None:
        """What only a mark tells may be a retry for whoever works on it while there is none.

        A rerun of a retry left none, or gc removed it with its workflow; so it removes a reset,
        when that is as old as a decision may be. docs/guarantees.md says what an operator does.
        """
        if not self.scene.mix.gc_age_zero and self._now() - self._reset_at < DECISION_AGE:
            return
        for task_id, (made, before) in self._reruns.items():
            row = self.scene.conductor.state.find_row(task_id)
            if row is not None and not self._is_marked(row):
                self._may_be[made] = before
        if not self._resets & self.scene.lakefs.repository(self.scene.repository.id).tags.keys():
            self._may_be.update(self._after_resets)

    def are_one(self, execution: int, other: int) -> bool:
        """Whether two executions are one, or may be one for whoever knows only lakeFS."""
        may_be: int | None = execution
        while may_be is not None and may_be != other:
            may_be = self._may_be.get(may_be)
        return may_be == other

    def _now(self) -> timedelta:
        return timedelta(seconds=self.scene.clock.seconds_since_epoch())

    def _is_marked(self, row: TaskRow) -> bool:
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        marks = [parse_attempt_mark(tag) for tag in tags]
        mine = mark_of(row.snapshot()).task_hash
        return any(mark is not None and mark.task_hash == mine for mark in marks)

    def resets_may_have_landed(self) -> None:
        """What retries the rows of now begins a new execution, if there is another reset mark.

        Its name holds the hash of a chain, where that of every other mark holds a row's.
        """
        rows = self.rows()
        known = {mark_of(row.snapshot()).task_hash for row in rows}
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        marks = {tag: parse_attempt_mark(tag) for tag in tags}
        resets = {tag for tag, mark in marks.items() if mark and mark.task_hash not in known}
        if resets > self._resets:
            times = [mark.scheduled_time for tag, mark in marks.items() if mark and tag in resets]
            self._reset_at = timedelta(milliseconds=max(times))  # it may have stood still since
            self._reset_rows = {(row.task_id, row.scheduled_time) for row in rows}
        self._resets |= resets

    def execution_of(self, record: AttemptRecord) -> int:
        """The execution of a polled row."""
        row = record.snapshot
        return self.execution((row.task_id, row.scheduled_time), row.retried_task_id)

    def execution(self, dispatched: Dispatched, retried: str | None) -> int:
        """The execution of a row: that of the row it retries, or a new one."""
        if dispatched not in self._executions:
            before = None if retried is None else self.scene.conductor.state.find_row(retried)
            earlier = (before.task_id, before.scheduled_time) if before else None
            if before is None or earlier is None:
                self._executions[dispatched] = self._new()
            elif earlier in self._reset_rows:
                self._executions[dispatched] = made = self._new()
                self._after_resets[made] = self.execution(earlier, before.retried_task_id)
                self.marks_may_be_gone()
            else:
                self._executions[dispatched] = self.execution(earlier, before.retried_task_id)
        return self._executions[dispatched]

    def run_of_publication(self, record: CommitRecord) -> Run | None:
        """The run that wrote it says so in its tree."""
        if record.commit not in self._published:
            files = self.scene.repository.files(record.commit)
            parent = self.scene.repository.files(record.parents[0])
            found = None
            for path in files.keys() - parent.keys():
                run = path.rpartition("/only-")[2].removesuffix(".txt")
                found = self.runs.get(run, found)
            self._published[record.commit] = found
        return self._published[record.commit]

    def execution_of_publication(self, record: CommitRecord) -> int:
        """Whose it is; 0 for nobody's."""
        run = self.run_of_publication(record)
        return 0 if run is None else run.execution

    def decision_of(self, record: AttemptRecord) -> tuple[int, CommitId, object]:
        """What a decision is one for: the execution, its input, its params."""
        given = record.input_data
        return self.execution_of(record), input_ref(given), knob_of(given)

    def in_words(self, record: AttemptRecord) -> str:
        """A row for the story."""
        row = record.snapshot
        return (
            f"{row.reference_name} retry {row.retry_count} poll {row.poll_count} "
            f"task {row.task_id[:4]} input {input_ref(record.input_data)[:8]} "
            f"knob {knob_of(record.input_data)} [execution {self.execution_of(record)}]"
        )

    def _new(self) -> int:
        self._count += 1
        return self._count


def _counts(record: AttemptRecord, rows: Sequence[TaskRow]) -> bool:
    """Whether the newest row of the task is the one that was polled, as it was polled."""
    mine = record.snapshot
    newest = [row for row in rows if row.reference_name == mine.reference_name][-1:]
    return any(
        (row.task_id, row.poll_count, row.scheduled_time, row.status)
        == (mine.task_id, mine.poll_count, mine.scheduled_time, AttemptStatus.IN_PROGRESS)
        for row in newest
    )


def knob_of(given: Mapping[str, object]) -> object:
    """The one parameter of a row's input."""
    return as_mapping(given.get("params")).get("knob")


def input_ref(given: Mapping[str, object]) -> CommitId:
    """The commit a row's input names."""
    return CommitId(str(as_mapping(given.get("workspace")).get("ref", "")))
