"""What the in-memory Conductor stores, and how a task becomes a row of it.

`ConductorState` finds and stores definitions, workflows, rows, queues and logs. `schedule_first`
and `schedule_next` make rows with their resolved input. Which change follows from which is decided
in `workflow_decider`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from perago.adapters.memory.conductor_rows import (
    ITERATION_MARK,
    SHOWN_AS,
    Spec,
    TaskRow,
    TaskSettings,
    WorkflowRun,
    task_settings,
)
from perago.adapters.memory.workflow_expressions import Document, resolve
from perago.domain.attempt import AttemptStatus
from perago.ports.conductor import LastPoll
from perago.ports.errors import MissingError
from perago.ports.system import Clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
QueueName = tuple[str, str | None]


class ConductorState:
    """The tables of one installation."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self.clock = clock
        self.random = Random(seed)  # noqa: S311 - ids and jitter, no secrets
        self.definitions: dict[str, Mapping[str, object]] = {}
        self.workflow_definitions: dict[tuple[str, int], Spec] = {}
        self.runs: dict[str, WorkflowRun] = {}
        self.logs: dict[str, list[str]] = {}
        self.polls: dict[QueueName, LastPoll] = {}
        self._workflow_of_task: dict[str, str] = {}
        # Task id -> (when it may be polled, order of arrival).
        self._queues: dict[QueueName, dict[str, tuple[int, int]]] = {}
        self._arrivals = 0

    @property
    def now_ms(self) -> int:
        """The server's clock, as it writes times."""
        return (self.clock.now() - EPOCH) // MILLISECOND

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
        """A row, or None."""
        workflow_id = self._workflow_of_task.get(task_id)
        return None if workflow_id is None else self.runs[workflow_id].rows.get(task_id)

    def row(self, task_id: str) -> TaskRow:
        """A row, or MissingError."""
        row = self.find_row(task_id)
        if row is None:
            raise MissingError(f"no such task found by id: {task_id}")
        return row

    def store(self, row: TaskRow) -> None:
        """Write a whole row, as the server does: whatever stood there is gone."""
        self.runs[row.workflow_id].rows[row.task_id] = row
        self._workflow_of_task[row.task_id] = row.workflow_id

    def forget(self, row: TaskRow) -> None:
        """Remove a row; its id is unknown from now on."""
        self.dequeue(row)
        self.runs[row.workflow_id].rows.pop(row.task_id, None)
        self._workflow_of_task.pop(row.task_id, None)

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
        queue = self._queues.get(queue_name)
        if not queue or count < 1:
            return []
        now = self.now_ms
        due = sorted(
            (position, task_id) for task_id, position in queue.items() if position[0] <= now
        )
        taken: list[TaskRow] = []
        for _, task_id in due:
            if len(taken) == count:
                break
            del queue[task_id]
            row = self.find_row(task_id)
            if row is not None and not row.status.is_terminal:
                taken.append(row)
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
        now = self.now_ms
        return [
            name
            for name, queue in self._queues.items()
            if any(
                position[0] <= now and self._is_open(task_id) for task_id, position in queue.items()
            )
        ]

    def _is_open(self, task_id: str) -> bool:
        row = self.find_row(task_id)
        return row is not None and not row.status.is_terminal

    def next_due_ms(self) -> int | None:
        """When the next queued row may be polled; None when every queue is empty."""
        return min(self.queued_times_ms(), default=None)

    def queued_times_ms(self) -> Iterator[int]:
        """When each queued row may be polled."""
        return (position[0] for queue in self._queues.values() for position in queue.values())


TASK_ID_NAME = "CPEWF_TASK_ID"  # the server's name for `${CPEWF_TASK_ID}` in an input


def schedule_first(
    state: ConductorState,
    run: WorkflowRun,
    spec: Spec,
    iteration: int,
    *,
    status: AttemptStatus = AttemptStatus.SCHEDULED,
) -> TaskRow:
    """Add the first attempt of a task; a task for workers goes on its queue."""
    task_type = str(spec["name"])
    settings = run.settings.get(task_type) or task_settings(task_type, None)
    task_id = state.new_id()
    now = state.now_ms
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=task_id,
        reference_name=reference_name(spec, iteration),
        task_type=SHOWN_AS.get(str(spec.get("type")), task_type),
        spec=spec,
        settings=settings,
        input_data=task_input(run, spec, settings, task_id),
        status=status,
        seq=run.next_seq,
        iteration=iteration,
        scheduled_time=now,
        start_time=0 if status is AttemptStatus.SCHEDULED else now,
        callback_after_ms=start_delay_ms(spec),
        domain=_domain(run, task_type),
    )
    state.store(row)
    if row.is_queued_type:
        state.enqueue(row, row.callback_after_ms)
    return row


def schedule_next(
    state: ConductorState, run: WorkflowRun, before: TaskRow, *, delay_ms: int, reason: str | None
) -> TaskRow | None:
    """Add the attempt that follows one; None when it is there already, as after a zombie's end."""
    before.retried = True
    count = before.retry_count + 1
    if any(row.retry_count == count for row in run.attempts_of(before.reference_name)):
        return None
    task_id = state.new_id()
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=task_id,
        reference_name=before.reference_name,
        task_type=before.task_type,
        spec=before.spec,
        settings=before.settings,
        # What a rerun gave stays, under whatever the definition names.
        input_data={
            **before.input_data,
            **task_input(run, before.spec, before.settings, task_id),
        },
        retry_count=count,
        seq=run.next_seq,
        iteration=before.iteration,
        scheduled_time=state.now_ms,
        start_delay_ms=delay_ms,
        callback_after_ms=delay_ms,
        retried_task_id=before.task_id,
        domain=before.domain,
        reason=reason,
    )
    state.store(row)
    if row.is_queued_type:
        state.enqueue(row, delay_ms)
    return row


def reference_name(spec: Spec, iteration: int) -> str:
    """The name of a task's rows; inside a loop it carries the iteration."""
    name = str(spec["taskReferenceName"])
    return f"{name}{ITERATION_MARK}{iteration}" if iteration else name


def task_input(
    run: WorkflowRun, spec: Spec, settings: TaskSettings, task_id: str
) -> dict[str, object]:
    """Resolve a task's input from what the workflow is now."""
    parameters = spec.get("inputParameters")
    template = parameters if isinstance(parameters, Mapping) else {}

    def lookup(name: str) -> object:
        return task_id if name == TASK_ID_NAME else find_document(run, name)

    resolved = {key: resolve(value, lookup) for key, value in template.items()}
    return {**settings.input_template, **resolved}


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


def start_delay_ms(spec: Spec) -> int:
    """The pause before a first attempt may be polled."""
    delay = spec.get("startDelay")
    return delay * 1000 if isinstance(delay, int) else 0


def _domain(run: WorkflowRun, task_type: str) -> str | None:
    return run.task_to_domain.get(task_type) or run.task_to_domain.get("*")
