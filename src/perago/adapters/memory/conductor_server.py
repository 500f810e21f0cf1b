"""The in-memory Conductor, and what a worker's messages do to a row.

Each message is a read of the whole row and a later write of it, with nothing compared in between,
as on the server; `Race` says who may come between the two. So a late heartbeat can undo an end here
as it does there.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast, final

from perago.adapters.memory import workflow_verbs
from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    TaskRow,
    WorkflowRun,
    complete_definition,
    copy_of,
)
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.system import VirtualClock, json_copy
from perago.adapters.memory.workflow_decider import create_run, decide
from perago.adapters.memory.workflow_step_kinds import STEPS
from perago.adapters.memory.workflow_verbs import check_definition
from perago.adapters.memory.workflow_walk import end_workflow
from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowStatus,
)
from perago.ports.conductor import HandBack, LastPoll, PollRequest, TerminalUpdate
from perago.ports.errors import RequestRefusedError
from perago.ports.system import Clock

# As on Conductor 3.32: a larger output is moved to other storage and reads back empty; above the
# second limit the row fails for good, and the answer is still 200.
OFFLOADED_BYTES_MIN = 3 * 1024 * 1024
REFUSED_BYTES_MIN = 10 * 1024 * 1024


def terminal_copy(state: ConductorState, update: TerminalUpdate) -> TaskRow | None:
    """The row as the update leaves it; None when the server ignores the update.

    The workflow that is named is looked up first and not compared with the row's own.
    """
    run = state.run(update.attempt.workflow_id)
    row = state.row(update.attempt.task_id)
    if run.status.is_terminal or row.status.is_terminal:
        return None
    output, size = _as_json(update.output)
    written = copy_of(row)
    written.status = update.status
    written.ended_at = state.now_ms
    written.output_data = output
    written.output_is_offloaded = size > OFFLOADED_BYTES_MIN
    written.reason = update.reason
    written.worker_id = update.worker_id
    written.requeueable = False
    if size > REFUSED_BYTES_MIN:
        written.status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        written.output_data = NO_DATA
        written.reason = f"output of {size} bytes exceeds the limit of {REFUSED_BYTES_MIN}"
    return written


def heartbeat_copy(state: ConductorState, task_id: str) -> TaskRow | None:
    """The row with a new update time and nothing else; None when it has ended."""
    row = state.row(task_id)
    if row.status.is_terminal:
        return None
    written = copy_of(row)
    written.update_time = state.now_ms
    return written


def handed_back_copy(state: ConductorState, given: HandBack) -> TaskRow | None:
    """The row back on its queue: progress without a lease extension; None when it has ended."""
    run = state.run(given.attempt.workflow_id)
    row = state.row(given.attempt.task_id)
    if run.status.is_terminal or row.status.is_terminal:
        return None
    output, _ = _as_json(given.output)
    written = copy_of(row)
    written.status = AttemptStatus.SCHEDULED
    written.worker_id = given.worker_id
    written.output_data = output
    written.reason = given.reason
    return written


def hand_out(state: ConductorState, row: TaskRow, worker_id: str) -> None:
    """Give a row to a worker; the start time is that of the attempt's first poll."""
    row.status = AttemptStatus.IN_PROGRESS
    row.poll_count += 1
    row.worker_id = worker_id
    row.callback_after_ms = 0
    row.update_time = state.now_ms
    if row.start_time == 0:
        row.start_time = state.now_ms


def _as_json(output: Mapping[str, object]) -> tuple[Mapping[str, object], int]:
    """The output as it travels, and its size."""
    try:
        text = json.dumps(dict(output), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RequestRefusedError(f"output cannot be sent as JSON: {error}") from error
    return cast("dict[str, object]", json.loads(text)), len(text)


VERSION = "3.32.3"  # the server whose behaviour this is, and that the contract suite runs
POLL_WAIT_MS_MAX = 5000  # the server answers 400 to a longer wait


class Race(Enum):
    """When the write of one message lands that was overtaken by another."""

    NEVER = "each message is one step"
    AFTER_DECISION = "after the other was written and decided on"
    BEFORE_DECISION = "after the other was written, before it was decided on"


@final
@dataclass(slots=True, eq=False)
class OpenWrite:
    """A message between its read and its write; `row` is None when it changes nothing."""

    row: TaskRow | None
    write: Callable[["OpenWrite"], None]

    def land(self) -> None:
        """Write the row; a second time does nothing."""
        self.write(self)


@final
class MemoryConductor:
    """One Conductor installation; without a clock it stands still at one moment."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seed: int = 0,
        race: Race = Race.NEVER,
        sweeps: bool = True,
    ) -> None:
        self.race = race
        self.sweeps = sweeps
        self.state = ConductorState(VirtualClock() if clock is None else clock, seed)
        self.open_writes: list[OpenWrite] = []
        self._swept_ms = -1

    def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """Hand out what waits; an empty queue answers at once, as nothing else can fill it."""
        if request.wait_ms > POLL_WAIT_MS_MAX:
            raise RequestRefusedError(
                f"poll {request.task_type}: a wait of {request.wait_ms} ms is more than "
                f"{POLL_WAIT_MS_MAX} ms"
            )
        self.sweep()
        queue = (request.task_type, request.domain)
        self.state.polls[queue] = LastPoll(
            request.worker_id, self.state.clock.now(), request.domain
        )
        rows = self.state.take_due(queue, request.count)
        for row in rows:
            hand_out(self.state, row, request.worker_id)
        return tuple(row.record() for row in rows)

    def begin_complete(self, update: TerminalUpdate) -> OpenWrite:
        """Read for a terminal update; writing it decides the workflow that it named."""
        row = terminal_copy(self.state, update)
        return self._open(row, lambda: self._written(update.attempt.workflow_id))

    def begin_extend_lease(self, attempt: AttemptSnapshot) -> OpenWrite:
        """Read for a heartbeat; writing it decides nothing."""
        return self._open(heartbeat_copy(self.state, attempt.task_id), None)

    def hand_back(self, given: HandBack) -> None:
        """Put a running row back on its queue."""
        row = handed_back_copy(self.state, given)
        if row is not None:
            self.state.store(row)
            self.state.enqueue(row, given.after_seconds * MILLISECONDS_PER_SECOND)
            self._written(row.workflow_id)

    def log(self, task_id: str, line: str) -> None:
        """Keep a line, also of a task that does not exist."""
        self.state.logs.setdefault(task_id, []).append(line)

    def put_task_definition(self, definition: Mapping[str, object]) -> None:
        """Replace one task definition; workflows that run keep the one they started with."""
        full = complete_definition(definition)
        self.state.definitions[str(full["name"])] = json_copy(full)

    def put_workflow_definition(self, definition: Mapping[str, object]) -> None:
        """Replace one workflow definition; workflows that run keep the one they started with."""
        full = check_definition(definition, STEPS)
        version = full["version"]
        assert isinstance(version, int)
        self.state.workflow_definitions[str(full["name"]), version] = json_copy(full)

    def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str],
    ) -> str:
        """Start a workflow; its id."""
        given = json_copy(dict(workflow_input))
        run = create_run(self.state, name, version, given, dict(task_to_domain))
        decide(self.state, run)
        return run.workflow_id

    def terminate(self, workflow_id: str, reason: str) -> None:
        """End a workflow; a failed one is terminated after the fact, a terminated one stays."""
        run = self.state.run(workflow_id)
        if run.status is WorkflowStatus.COMPLETED:
            raise RequestRefusedError(f"workflow {workflow_id}: cannot terminate a COMPLETED one")
        if run.status is not WorkflowStatus.TERMINATED:
            end_workflow(self.state, run, WorkflowStatus.TERMINATED, reason)
        self._written(workflow_id)

    def pause(self, workflow_id: str) -> None:
        """Schedule nothing new until resumed."""
        workflow_verbs.pause(self.state.run(workflow_id))

    def resume(self, workflow_id: str) -> None:
        """Undo a pause and go on."""
        workflow_verbs.resume(self.state.run(workflow_id))
        self._written(workflow_id)

    def retry(self, workflow_id: str) -> None:
        """Continue a failed workflow."""
        workflow_verbs.retry(self.state, self.state.run(workflow_id))
        self._written(workflow_id)

    def rerun(
        self, workflow_id: str, from_task_id: str, task_input: Mapping[str, object] | None
    ) -> None:
        """Run an ended workflow again from one of its rows."""
        run = self.state.run(workflow_id)
        workflow_verbs.rerun(self.state, run, from_task_id, task_input)
        self._written(workflow_id)

    def restart(self, workflow_id: str) -> None:
        """Run an ended workflow again from its start."""
        workflow_verbs.restart(self.state, self.state.run(workflow_id))
        self._written(workflow_id)

    def requeue(self, task_type: str) -> None:
        """Queue every open row of a type, healthy ones included, without changing the rows.

        The server keeps a list of open rows that a row leaves with its first end: after a rerun
        it is open and not on the list.
        """
        for run in self.state.runs.values():
            for row in run.open_rows():
                if row.task_type == task_type and row.is_queued_type and row.requeueable:
                    self.state.enqueue(row)

    def decide(self, workflow_id: str) -> None:
        """Apply what is due in one workflow and in its parts."""
        run = self.state.run(workflow_id)
        for child in self._parts_of(run):
            decide(self.state, child)
        self._written(workflow_id)

    def sweep(self) -> None:
        """Decide every open workflow when the clock has moved, as the server's sweeper does."""
        if not self.sweeps or self._swept_ms == self.state.now_ms:
            return
        self._swept_ms = self.state.now_ms
        for run in list(self.state.runs.values()):
            if run.status is WorkflowStatus.RUNNING:
                self._written(run.workflow_id)

    def _open(self, row: TaskRow | None, decide_after: Callable[[], None] | None) -> OpenWrite:
        def write(opened: OpenWrite) -> None:
            if opened not in self.open_writes:  # it has landed: a test may land all that is open
                return
            self.open_writes.remove(opened)
            self._store(opened.row)
            # A heartbeat decides nothing. An update that the server ignores has no row.
            if opened.row is not None and decide_after is not None:
                decide_after()

        opened = OpenWrite(row, write)
        self.open_writes.append(opened)
        if self.race is Race.NEVER:
            opened.land()
        return opened

    def _store(self, row: TaskRow | None) -> None:
        # A restart of the workflow deletes its rows while a message is on its way.
        if row is None or self.state.find_row(row.task_id) is None:
            return
        self.state.store(row)
        if row.status.is_terminal:
            self.state.dequeue(row)

    def _written(self, workflow_id: str) -> None:
        """Something was written: decide on it, and let what was overtaken land on its side."""
        if self.race is Race.BEFORE_DECISION:
            self._land_overtaken(workflow_id)
        decide(self.state, self.state.run(workflow_id))
        if self.race is Race.AFTER_DECISION:
            self._land_overtaken(workflow_id)

    def _land_overtaken(self, workflow_id: str) -> None:
        for opened in list(self.open_writes):
            # Without a row it is an ignored update: it names no workflow and changes none.
            if opened.row is None or opened.row.workflow_id == workflow_id:
                opened.land()

    def _parts_of(self, run: WorkflowRun) -> list[WorkflowRun]:
        return [
            part
            for part in self.state.runs.values()
            if part.parent is not None and part.parent[0] == run.workflow_id
        ]
