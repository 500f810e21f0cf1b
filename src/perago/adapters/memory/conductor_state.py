"""What the in-memory Conductor stores, and how a task becomes a row of it.

`ConductorState` finds and stores definitions, workflows, rows, queues and logs. `schedule_first`
and `schedule_next` make rows with their resolved input, and `end_workflow` ends all that is open.
Which change follows from which is decided in `workflow_decider`.
"""

from collections.abc import Iterator, Mapping
from random import Random
from uuid import UUID

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    SHOWN_AS,
    TASK_ID_NAME,
    Spec,
    TaskRow,
    TaskSettings,
    WorkflowRun,
    kind_of,
    name_in_loop,
)
from perago.adapters.memory.system import as_epoch_ms
from perago.adapters.memory.workflow_expressions import Document, resolve
from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.ports.conductor import LastPoll
from perago.ports.errors import MissingError
from perago.ports.system import Clock

CHILD_ID = "subWorkflowId"  # in the output of a row that stands for a child workflow
QueueName = tuple[str, str | None]


class ConductorState:
    """The tables of one installation."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self.clock = clock
        self.random = Random(seed)  # noqa: S311 - ids and jitter, no secrets
        self.definitions: dict[str, TaskSettings] = {}
        self.workflow_definitions: dict[tuple[str, int], Spec] = {}
        self.runs: dict[str, WorkflowRun] = {}
        self.logs: dict[str, list[str]] = {}
        self.polls: dict[QueueName, LastPoll] = {}
        self._rows: dict[str, TaskRow] = {}
        # Task id -> (when it may be polled, order of arrival).
        self._queues: dict[QueueName, dict[str, tuple[int, int]]] = {}
        self._arrivals = 0

    @property
    def now_ms(self) -> int:
        """The server's clock, as it writes times."""
        return as_epoch_ms(self.clock.now())

    def settings(self, task_type: str) -> TaskSettings:
        """The definition of a task type; without one the server takes its defaults."""
        return self.definitions.get(task_type) or TaskSettings(name=task_type)

    def new_id(self) -> str:
        """An id as the server makes them, from the seed."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def run(self, workflow_id: str) -> WorkflowRun:
        """A workflow, or MissingError."""
        run = self.runs.get(workflow_id)
        if run is None:
            raise MissingError(f"no such workflow found by id: {workflow_id}")
        return run

    def find_row(self, task_id: str) -> TaskRow | None:
        return self._rows.get(task_id)

    def row(self, task_id: str) -> TaskRow:
        """A row, or MissingError."""
        row = self.find_row(task_id)
        if row is None:
            raise MissingError(f"no such task found by id: {task_id}")
        return row

    def store(self, row: TaskRow) -> None:
        """Write a whole row, as the server does: whatever stood there is gone."""
        self._rows[row.task_id] = self.runs[row.workflow_id].rows[row.task_id] = row

    def forget(self, row: TaskRow) -> None:
        """Remove a row; its id is unknown from now on."""
        self.dequeue(row)
        self.runs[row.workflow_id].rows.pop(row.task_id, None)
        self._rows.pop(row.task_id, None)

    def enqueue(self, row: TaskRow, after_ms: int = 0) -> None:
        """Put a row on its queue; a row that is there already takes the new time."""
        self._arrivals += 1
        queue = self._queues.setdefault(row.queue, {})
        queue[row.task_id] = (self.now_ms + after_ms, self._arrivals)

    def dequeue(self, row: TaskRow) -> None:
        """Take a row off its queue, wherever it stands."""
        self._queues.get(row.queue, {}).pop(row.task_id, None)

    def take_due(self, queue_name: QueueName, count: int) -> list[TaskRow]:
        """Take up to `count` rows whose time has come, in the order of their times."""
        queue = self._queues.get(queue_name, {})
        taken: list[TaskRow] = []
        for task_id in self._due_in(queue):
            if len(taken) >= count:
                break
            del queue[task_id]
            if self._is_open(task_id):
                taken.append(self._rows[task_id])
        return taken

    def last_polls(self, task_type: str) -> tuple[LastPoll, ...]:
        """The newest poll of each domain of a type."""
        return tuple(poll for (name, _), poll in self.polls.items() if name == task_type)

    def waiting(self, task_type: str) -> dict[str | None, int]:
        """How many open rows of a type are queued, by domain."""
        counts = {
            domain: sum(map(self._is_open, queue))
            for (name, domain), queue in self._queues.items()
            if name == task_type
        }
        return {domain: count for domain, count in counts.items() if count}

    def due_queues(self) -> list[QueueName]:
        """The queues from which a poll would get a row now."""
        queues = self._queues.items()
        return [name for name, queue in queues if any(map(self._is_open, self._due_in(queue)))]

    def _due_in(self, queue: Mapping[str, tuple[int, int]]) -> list[str]:
        now = self.now_ms
        return sorted(
            (task_id for task_id in queue if queue[task_id][0] <= now), key=queue.__getitem__
        )

    def _is_open(self, task_id: str) -> bool:
        row = self.find_row(task_id)
        return row is not None and not row.status.is_terminal

    def queued_times_ms(self) -> Iterator[int]:
        """When each queued row may be polled."""
        return (position[0] for queue in self._queues.values() for position in queue.values())


def schedule_first(
    state: ConductorState, run: WorkflowRun, spec: Spec, iteration: int, status: AttemptStatus
) -> TaskRow:
    """Add the first attempt of a task; a task for workers goes on its queue."""
    name = str(spec["name"])
    # A task that a dynamic fork names is not in the workflow's own definition.
    settings = run.settings.get(name) or state.settings(name)
    delay = spec.get("startDelay")
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=state.new_id(),
        reference_name=name_in_loop(str(spec["taskReferenceName"]), iteration),
        task_type=SHOWN_AS.get(kind_of(spec), name),
        spec=spec,
        settings=settings,
        input_data={},
        status=status,
        iteration=iteration,
        start_time=0 if status is AttemptStatus.SCHEDULED else state.now_ms,
        callback_after_ms=delay * MILLISECONDS_PER_SECOND if isinstance(delay, int) else 0,
        domain=run.task_to_domain.get(name) or run.task_to_domain.get("*"),
    )
    return _add(state, run, row)


def schedule_next(
    state: ConductorState, run: WorkflowRun, before: TaskRow, *, delay_ms: int, reason: str | None
) -> TaskRow | None:
    """Add the attempt that follows one; None when it is there already, as after a zombie's end."""
    before.retried = True
    count = before.retry_count + 1
    if any(row.retry_count == count for row in run.attempts_of(before.reference_name)):
        return None
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=state.new_id(),
        reference_name=before.reference_name,
        task_type=before.task_type,
        spec=before.spec,
        settings=before.settings,
        input_data=before.input_data,  # what a rerun gave stays, under what the definition names
        retry_count=count,
        iteration=before.iteration,
        start_delay_ms=delay_ms,
        callback_after_ms=delay_ms,
        retried_task_id=before.task_id,
        domain=before.domain,
        reason=reason,
    )
    return _add(state, run, row)


def _add(state: ConductorState, run: WorkflowRun, row: TaskRow) -> TaskRow:
    """Store a new row with its input, resolved from what the workflow is now."""

    def lookup(name: str) -> object:
        return row.task_id if name == TASK_ID_NAME else find_document(run, name)

    parameters = as_mapping(row.spec.get("inputParameters"))
    resolved = {key: resolve(value, lookup) for key, value in parameters.items()}
    row.input_data = {**row.input_data, **row.settings.input_template, **resolved}
    row.seq = run.next_seq
    row.scheduled_time = state.now_ms
    state.store(row)
    if row.is_queued_type:
        state.enqueue(row, row.callback_after_ms)
    return row


def find_document(run: WorkflowRun, name: str) -> Document | None:
    """What an expression may look into: the workflow, or the newest row of a task."""
    if name == "workflow":
        return {
            "input": run.input_data,
            "output": run.output_data,
            "status": str(run.status),
            "workflowId": run.workflow_id,
            "workflowType": run.definition["name"],
            "version": run.definition["version"],
            "reasonForIncompletion": run.reason,
            "variables": run.variables,
        }
    row = run.newest_by_name(name)
    if row is None:
        return None
    return {
        "input": row.input_data,
        "output": row.output_data,
        "status": str(row.status),
        "taskId": row.task_id,
        "taskType": row.task_type,
        "taskDefName": row.task_type,
        "referenceTaskName": row.reference_name,
        "retryCount": row.retry_count,
        "pollCount": row.poll_count,
        "iteration": row.iteration,
        "scheduledTime": row.scheduled_time,
        "startTime": row.start_time,
        "workerId": row.worker_id,
        "workflowInstanceId": row.workflow_id,
        "reasonForIncompletion": row.reason,
    }


def end_workflow(
    state: ConductorState, run: WorkflowRun, status: WorkflowStatus, reason: str | None
) -> None:
    """End a workflow with all that is open below it."""
    run.status = status
    run.ended_at = state.now_ms
    run.reason = reason
    for row in run.open_rows():
        row.status = AttemptStatus.CANCELED
        row.ended_at = state.now_ms
        row.requeueable = False
        state.dequeue(row)
        child = state.runs.get(str(row.output_data.get(CHILD_ID)))
        if child is not None and not child.status.is_terminal:
            why = f"Parent workflow has been terminated with reason: {reason}"
            end_workflow(state, child, WorkflowStatus.TERMINATED, why)
    parameters = as_mapping(run.definition.get("outputParameters"))
    if parameters:
        run.output_data = {
            key: resolve(value, lambda name: find_document(run, name))
            for key, value in parameters.items()
        }
    else:
        rows = list(run.rows.values())
        run.output_data = dict(rows[-1].output_data) if rows else {}
