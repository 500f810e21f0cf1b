"""The in-memory Conductor: what messages of workers and verbs of operators do to its rows.

Each message is a read of the whole row and a later write of it, with nothing compared in between,
as on the server; `Race` says who may come between the two. So a late heartbeat can undo an end here
as it does there. A verb says which rows stay, which are forgotten and which are reset; what runs
next is decided by `workflow_decider`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast, final

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    TaskRow,
    TaskSettings,
    WorkflowRun,
    check_definition,
    kind_of,
)
from perago.adapters.memory.conductor_state import ConductorState, end_workflow, schedule_next
from perago.adapters.memory.system import VirtualClock, json_copy
from perago.adapters.memory.workflow_decider import create_run, decide
from perago.adapters.memory.workflow_step_kinds import STEPS
from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowStatus,
)
from perago.ports.conductor import NO_DOMAINS, HandBack, LastPoll, PollRequest, TerminalUpdate
from perago.ports.errors import RequestRefusedError
from perago.ports.system import Clock

VERSION = "3.32.3"  # the server whose behaviour this is, and that the contract suite runs
POLL_WAIT_MS_MAX = 5000  # the server answers 400 to a longer wait
# As on Conductor 3.32: a larger output is moved to other storage and reads back empty; above the
# second limit the row fails for good, and the answer is still 200.
OFFLOADED_BYTES_MIN = 3 * 1024 * 1024
REFUSED_BYTES_MIN = 10 * 1024 * 1024
# Kinds that wait for other tasks: brought back they wait again, as the same row.
WAITING_KINDS = frozenset({"JOIN", "DO_WHILE"})
# How a row ended badly; a retry adds an attempt behind the newest of these.
REPEATABLE = frozenset(
    {
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        AttemptStatus.TIMED_OUT,
        AttemptStatus.CANCELED,
    }
)


class Race(Enum):
    """When the write of one message lands that was overtaken by another."""

    NEVER = "each message is one step"
    AFTER_DECISION = "after the other was written and decided on"
    BEFORE_DECISION = "after the other was written, before it was decided on"


@final
@dataclass(slots=True, eq=False)
class OpenWrite:
    """A message between its read and its write; `row` is None when it changes nothing.

    After the write the server decides the workflow that `decides` names: a heartbeat names none.
    """

    conductor: "MemoryConductor"
    row: TaskRow | None
    decides: str | None = None

    def land(self) -> None:
        """Write the row; a second time does nothing."""
        self.conductor.land(self)


@final
class MemoryConductor:
    """One Conductor installation; without a clock it stands still at one moment."""

    def __init__(
        self, clock: Clock | None = None, *, seed: int = 0, race: Race = Race.NEVER
    ) -> None:
        self.race = race
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
            row.status = AttemptStatus.IN_PROGRESS
            row.poll_count += 1
            row.worker_id = request.worker_id
            row.callback_after_ms = 0
            row.update_time = self.state.now_ms
            row.start_time = row.start_time or self.state.now_ms  # of the attempt's first poll
        return tuple(row.record() for row in rows)

    def begin_complete(self, update: TerminalUpdate) -> OpenWrite:
        """Read for a terminal update; writing it decides the workflow that it named."""
        row = terminal_copy(self.state, update)
        return self._open(OpenWrite(self, row, update.attempt.workflow_id))

    def begin_extend_lease(self, attempt: AttemptSnapshot) -> OpenWrite:
        """Read for a heartbeat; writing it decides nothing."""
        return self._open(OpenWrite(self, heartbeat_copy(self.state, attempt.task_id)))

    def land(self, opened: OpenWrite) -> None:
        """Write the row of a message, unless it has landed: a test may land all that is open."""
        if opened not in self.open_writes:
            return
        self.open_writes.remove(opened)
        row = opened.row
        if row is None:  # an update that the server ignores
            return
        # A restart of the workflow deletes its rows while a message is on its way.
        if self.state.find_row(row.task_id) is not None:
            self.state.store(row)
            if row.status.is_terminal:
                self.state.dequeue(row)
        if opened.decides is not None:
            self._written(opened.decides)

    def hand_back(self, given: HandBack) -> None:
        """Put a running row back on its queue."""
        row = handed_back_copy(self.state, given)
        if row is not None:
            self.state.store(row)
            self.state.enqueue(row, given.after_seconds * MILLISECONDS_PER_SECOND)
            self._written(row.workflow_id)

    def put_task_definition(self, definition: Mapping[str, object]) -> None:
        """Replace one task definition; workflows that run keep the one they started with."""
        settings = TaskSettings.of(definition)
        self.state.definitions[settings.name] = settings

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
        task_to_domain: Mapping[str, str] = NO_DOMAINS,
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
        """Schedule nothing new until resumed; what is scheduled is still handed out."""
        run = self.state.run(workflow_id)
        if run.status.is_terminal:
            raise _refused(run, "has ended, its status cannot be updated")
        run.status = WorkflowStatus.PAUSED

    def resume(self, workflow_id: str) -> None:
        """Undo a pause and go on."""
        run = self.state.run(workflow_id)
        if run.status is not WorkflowStatus.PAUSED:
            raise _refused(run, "is not PAUSED, cannot resume")
        run.status = WorkflowStatus.RUNNING
        self._written(workflow_id)

    def retry(self, workflow_id: str) -> None:
        """Add an attempt behind the newest of every task that ended badly, past any limit."""
        run = self._ended(workflow_id, "is still running, cannot retry")
        newest = {row.reference_name: row for row in run.rows.values()}
        failed = [row for row in newest.values() if row.status in REPEATABLE]
        # Those that only wait go on beside the others; alone they give nothing to do.
        if all(kind_of(row.spec) in WAITING_KINDS for row in failed):
            raise _refused(run, "has no retryable tasks; use restart")
        _bring_back(self.state, run)
        for row in failed:
            if kind_of(row.spec) in WAITING_KINDS:
                row.status = AttemptStatus.IN_PROGRESS
            else:
                added = schedule_next(self.state, run, row, delay_ms=0, reason=None)
                if added is not None:  # both rows share one map while the server resolves it anew
                    row.input_data = added.input_data
        self._written(workflow_id)

    def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        """Run again from one row: it keeps its id and count, everything behind it is forgotten."""
        run = self._ended(workflow_id, "is not in terminal state, unable to rerun")
        row = run.rows.get(from_task_id)
        if row is None:
            raise RequestRefusedError(f"task {from_task_id} not found in workflow {workflow_id}")
        for other in list(run.rows.values()):
            if other.seq > row.seq:
                self.state.forget(other)
            elif other.reference_name != row.reference_name:
                _take_along(self.state, other, row)
        _bring_back(self.state, run)
        if kind_of(row.spec) in {"SIMPLE", "SUB_WORKFLOW"}:
            _reset(self.state, row, task_input)
        else:
            self.state.forget(row)  # walking makes it anew
        self._written(workflow_id)

    def restart(self, workflow_id: str) -> None:
        """Run again from the start under the same id; the rows are forgotten."""
        run = self._ended(workflow_id, "is not in terminal state, unable to restart")
        for row in list(run.rows.values()):
            self.state.forget(row)
        run.output_data = {}
        run.ended_at = 0
        _bring_back(self.state, run)
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
        self.state.run(workflow_id)  # it has to be there
        for part in list(self.state.runs.values()):
            if part.parent is not None and part.parent[0] == workflow_id:
                decide(self.state, part)
        self._written(workflow_id)

    def sweep(self) -> None:
        """Decide every open workflow when the clock has moved, as the server's sweeper does."""
        if self._swept_ms == self.state.now_ms:
            return
        self._swept_ms = self.state.now_ms
        for run in list(self.state.runs.values()):
            if run.status is WorkflowStatus.RUNNING:
                self._written(run.workflow_id)

    def _ended(self, workflow_id: str, why_not: str) -> WorkflowRun:
        run = self.state.run(workflow_id)
        if not run.status.is_terminal:
            raise _refused(run, why_not)
        return run

    def _open(self, opened: OpenWrite) -> OpenWrite:
        self.open_writes.append(opened)
        if self.race is Race.NEVER:
            opened.land()
        return opened

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


def terminal_copy(state: ConductorState, update: TerminalUpdate) -> TaskRow | None:
    """The row as the update leaves it; None when the server ignores the update."""
    row = _open_row(state, update.attempt)
    if row is None:
        return None
    output, size = _as_json(update.output)
    written = replace(
        row,
        status=update.status,
        ended_at=state.now_ms,
        output_data=output,
        output_is_offloaded=size > OFFLOADED_BYTES_MIN,
        reason=update.reason,
        worker_id=update.worker_id,
        requeueable=False,
    )
    if size > REFUSED_BYTES_MIN:
        written.status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        written.output_data = NO_DATA
        written.reason = f"output of {size} bytes exceeds the limit of {REFUSED_BYTES_MIN}"
    return written


def heartbeat_copy(state: ConductorState, task_id: str) -> TaskRow | None:
    """The row with a new update time and nothing else; None when it has ended."""
    row = state.row(task_id)
    return None if row.status.is_terminal else replace(row, update_time=state.now_ms)


def handed_back_copy(state: ConductorState, given: HandBack) -> TaskRow | None:
    """The row back on its queue: progress without a lease extension; None when it has ended."""
    row = _open_row(state, given.attempt)
    if row is None:
        return None
    output, _ = _as_json(given.output)
    return replace(
        row,
        status=AttemptStatus.SCHEDULED,
        worker_id=given.worker_id,
        output_data=output,
        reason=given.reason,
    )


def _open_row(state: ConductorState, attempt: AttemptSnapshot) -> TaskRow | None:
    """The row of a message; None when it has ended, or the workflow that the message names.

    That workflow is looked up first and not compared with the row's own.
    """
    run, row = state.run(attempt.workflow_id), state.row(attempt.task_id)
    return None if run.status.is_terminal or row.status.is_terminal else row


def _as_json(output: Mapping[str, object]) -> tuple[Mapping[str, object], int]:
    """The output as it travels, and its size."""
    try:
        text = json.dumps(dict(output), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RequestRefusedError(f"output cannot be sent as JSON: {error}") from error
    return cast("dict[str, object]", json.loads(text)), len(text)


def _take_along(state: ConductorState, other: TaskRow, row: TaskRow) -> None:
    """Every earlier row that ended badly runs again, also one that a later attempt made good.

    A loop that completed stays so: the server looks at it no more, and nothing follows its body.
    """
    if other.status not in REPEATABLE:
        other.leads_on = other.leads_on and not (
            kind_of(other.spec) == "DO_WHILE" and row.iteration
        )
        return
    other.reason = None
    other.start_time = state.now_ms
    if kind_of(other.spec) not in WAITING_KINDS:
        other.status = AttemptStatus.SCHEDULED
        if other.is_queued_type:
            state.enqueue(other)
        return
    other.status = AttemptStatus.IN_PROGRESS
    if kind_of(other.spec) == "DO_WHILE" and row.iteration:
        later = {str(count) for count in range(row.iteration + 1, other.iteration + 1)}
        kept = {key: value for key, value in other.output_data.items() if key not in later}
        other.iteration = row.iteration
        other.output_data = {**kept, "iteration": row.iteration}


def _reset(state: ConductorState, row: TaskRow, task_input: Mapping[str, object] | None) -> None:
    row.status = AttemptStatus.SCHEDULED
    row.poll_count = 0
    row.start_time = row.update_time = 0
    # On a server time has passed since; here the clock may stand still.
    row.scheduled_time = max(state.now_ms, row.scheduled_time + 1)
    row.retried = False
    row.output_data = {}
    row.output_is_offloaded = False
    if task_input is not None:
        row.input_data = dict(task_input)
    if row.is_queued_type:
        state.enqueue(row)


def _bring_back(state: ConductorState, run: WorkflowRun) -> None:
    """Set an ended workflow running, and the ones it is a part of.

    A retry of the parent's row has begun another child, so this one is no part of it any more.
    """
    run.status = WorkflowStatus.RUNNING
    run.reason = None
    run.start_time = state.now_ms
    if run.parent is None:
        return
    parent_id, task_id = run.parent
    parent = state.runs[parent_id]
    row = parent.rows.get(task_id)
    if row is not None and not row.retried:
        row.status = AttemptStatus.IN_PROGRESS
        if parent.status.is_terminal:
            _bring_back(state, parent)


def _refused(run: WorkflowRun, why: str) -> RequestRefusedError:
    name = run.definition["name"]
    return RequestRefusedError(f"workflow {name}/{run.workflow_id} ({run.status}) {why}")
