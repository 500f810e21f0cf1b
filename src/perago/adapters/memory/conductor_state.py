"""What the in-memory Conductor remembers: definitions, workflows, rows, queues, logs.

Finds and stores; which change follows from which is decided elsewhere.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from perago.adapters.memory.conductor_rows import Spec, TaskRow, WorkflowRun
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
