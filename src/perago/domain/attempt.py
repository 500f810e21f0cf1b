"""An attempt as Conductor shows it, when it is stale, and how much time each of its steps has.

The first part is the facts of a task row and a workflow. `compare_narrow`, `compare_row` and
`compare_wide` say whether an attempt still counts. `PublishTimes` are its time limits. Knows no
wire format and no clock; times of rows are the server's milliseconds and are only compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import NewType, TypeAlias, cast

ExecutionId = NewType("ExecutionId", str)

NO_DATA: Mapping[str, object] = MappingProxyType({})


def as_mapping(value: object) -> Mapping[str, object]:
    """What a row carries under a name, if that is an object of JSON; else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else NO_DATA


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
    """A task row with what it carries: input, output, reason, and the lease it was given.

    `ended_at` is the server's millisecond, to be read only while the status is terminal; 0 where
    the server does not say. Only a worker that polls its `domain` gets the row. `delay_seconds` is
    how long after its `scheduled_time` a row that no worker has had yet may be polled.
    """

    snapshot: AttemptSnapshot
    input_data: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    output_data: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    reason: str | None = None
    response_timeout_seconds: int = 0
    queue_wait_ms: int = 0
    ended_at: int = 0
    domain: str | None = None
    delay_seconds: int = 0


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


MISSING = "missing"


class FenceWidth(StrEnum):
    """How much of Conductor a fence reads: one task row, or the workflow with all its rows."""

    NARROW = "narrow"
    WIDE = "wide"


@dataclass(frozen=True, slots=True)
class Current:
    """Every compared fact is as it was polled: the attempt counts."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The first fact that says this attempt no longer counts."""

    field: str
    expected: str
    found: str


FenceVerdict: TypeAlias = Current | Stale
NARROW_FACTS = ("workflow_id", "task_id", "retry_count", "status")
WIDE_FACTS = ("poll_count", "start_time", "scheduled_time", "worker_id", "retried")


def compare_narrow(polled: AttemptSnapshot, fresh: AttemptSnapshot | None) -> FenceVerdict:
    """Compare the four facts of the documents; an absent row is stale.

    status IN_PROGRESS, and equal workflow id, task id, retry count.
    """
    return _compare(polled, fresh, NARROW_FACTS)


def compare_row(polled: AttemptSnapshot, fresh: AttemptSnapshot | None) -> FenceVerdict:
    """Compare every fact of the one row: was this very row handed to another worker?

    A rerun by a user and a redelivery keep task id, retry count and status.
    """
    return _compare(polled, fresh, NARROW_FACTS + WIDE_FACTS)


def compare_wide(polled: AttemptSnapshot, fresh: WorkflowSnapshot | None) -> FenceVerdict:
    """Compare with the workflow: of the rows with my reference name the newest must be mine.

    Closes four holes of the narrow fence: rerun and redelivery of the same row, and rows that
    a heartbeat resurrected inside a terminated workflow or beside a live retry.
    """
    if fresh is None:
        return Stale("workflow_id", polled.workflow_id, MISSING)
    if fresh.status not in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}:
        return Stale("workflow_status", WorkflowStatus.RUNNING, fresh.status)
    rows = [row for row in fresh.tasks if row.reference_name == polled.reference_name]
    if not rows:
        return Stale("task_id", polled.task_id, MISSING)
    return compare_row(polled, max(rows, key=lambda row: row.seq))


def _compare(
    polled: AttemptSnapshot, fresh: AttemptSnapshot | None, facts: Sequence[str]
) -> FenceVerdict:
    """The first fact that differs from the row as it was polled, IN_PROGRESS since then."""
    if fresh is None:
        return Stale("task_id", polled.task_id, MISSING)
    working = replace(polled, status=AttemptStatus.IN_PROGRESS)
    for name in facts:
        expected, found = (getattr(row, name) for row in (working, fresh))
        if expected != found:
            return Stale(name, str(expected), MISSING if found is None else str(found))
    return Current()


# A restart of lakeFS or of its database takes minutes and ends within this. A longer outage is an
# operator's matter, and a waiting attempt holds a slot.
PATIENCE_SECONDS = 900.0
# One beat may be lost and the next still comes in time. conductor-python beats at 80 %: with
# response time-outs of 1 to 3 s it lost leases (4 of 4, 2 of 4, 1 of 4 attempts; Conductor 3.32).
LEASE_FRACTION = 3


@dataclass(frozen=True, slots=True)
class PublishTimes:
    """How long the parts of a publication may take: by the budget of the task, or without one.

    The defaults are what 0.6.1 gives a task without a budget. Shorter ones end publications as
    "outcome unknown" whose answer was only slow; longer ones add to what deployments have to grant:
    these and the kill make the 156 s that `perago start` logs as termination_grace_period_seconds.
    """

    merge_timeout_seconds: float = 60.0
    """How long one effect may stay unanswered, and how long it may take to settle."""
    completion_timeout_seconds: float = 60.0
    """How long the terminal update may be tried."""
    shutdown_grace_seconds: float = 30.0
    """How long a draining worker lets this task finish."""
    heartbeat_interval_seconds: float = inf
    """The longest pause between two heartbeats that the budget allows."""

    def heartbeat_seconds(self, response_timeout_seconds: float) -> float:
        """The pause between two heartbeats: a third of the lease, or less if the budget asks."""
        return min(response_timeout_seconds / LEASE_FRACTION, self.heartbeat_interval_seconds)
