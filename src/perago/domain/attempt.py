"""An attempt as Conductor shows it: the facts that fences compare and keys are made of.

Knows no wire format and no clock; times are the server's milliseconds, compared, never read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NewType

ExecutionId = NewType("ExecutionId", str)

NO_DATA: Mapping[str, object] = MappingProxyType({})


class AttemptStatus(StrEnum):
    """Task states of Conductor."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    CANCELED = "CANCELED"
    TIMED_OUT = "TIMED_OUT"
    SKIPPED = "SKIPPED"

    @property
    def is_terminal(self) -> bool:
        """Whether the server will never hand this row out again."""
        return self not in {AttemptStatus.SCHEDULED, AttemptStatus.IN_PROGRESS}


class WorkflowStatus(StrEnum):
    """Workflow states of Conductor."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"

    @property
    def is_terminal(self) -> bool:
        """Whether only an operator's retry, rerun or restart can bring the workflow back."""
        return self not in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}


@dataclass(frozen=True, slots=True)
class AttemptSnapshot:
    """One task row at one moment; `update_time` is absent because heartbeats move it."""

    workflow_id: str
    task_id: str
    reference_name: str
    task_type: str
    status: AttemptStatus
    retry_count: int = 0
    seq: int = 0
    iteration: int = 0
    poll_count: int = 0
    start_time: int = 0
    scheduled_time: int = 0
    worker_id: str | None = None
    retried_task_id: str | None = None
    retried: bool = False

    @property
    def logical_task_key(self) -> str:
        """Workflow, reference name and iteration: the same for every retry of one task."""
        return f"{self.workflow_id}/{self.reference_name}/{self.iteration}"


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """A task row with what it carries: input, output, reason, and the lease it was given."""

    snapshot: AttemptSnapshot
    input_data: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    output_data: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    reason: str | None = None
    response_timeout_seconds: int = 0
    queue_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkflowSnapshot:
    """One workflow with all its task rows, read in a single answer.

    `ended_at` is the server's millisecond, to be read only while the status is terminal; 0 where
    the server does not say.
    """

    workflow_id: str
    status: WorkflowStatus
    tasks: tuple[AttemptSnapshot, ...]
    ended_at: int = 0
