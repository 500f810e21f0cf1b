"""Is this attempt still the one that counts? What was polled is compared with a fresh read.

Each comparison returns which fact differs; none knows how the fresh read was made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perago.domain.attempt import (
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)

MISSING = "missing"


class FenceWidth(StrEnum):
    """How much of Conductor a fence reads: one task row, or the workflow with all its rows."""

    NARROW = "narrow"
    WIDE = "wide"


@dataclass(frozen=True, slots=True)
class Current:
    """Nothing speaks against this attempt."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The first fact that says this attempt no longer counts."""

    field: str
    expected: str
    found: str


FenceVerdict: TypeAlias = Current | Stale
_Fact: TypeAlias = tuple[str, object, object]


def compare_narrow(polled: AttemptSnapshot, fresh: AttemptSnapshot | None) -> FenceVerdict:
    """Compare the four facts of the documents; an absent row is stale.

    status IN_PROGRESS, and equal workflow id, task id, retry count.
    """
    if fresh is None:
        return Stale("task_id", polled.task_id, MISSING)
    return _first_difference(_narrow_facts(polled, fresh))


def compare_row(polled: AttemptSnapshot, fresh: AttemptSnapshot | None) -> FenceVerdict:
    """Compare every fact of the one row: was this very row handed to somebody else?

    A rerun by a user and a redelivery keep task id, retry count and status.
    """
    if fresh is None:
        return Stale("task_id", polled.task_id, MISSING)
    return _first_difference([*_narrow_facts(polled, fresh), *_wide_facts(polled, fresh)])


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


def _narrow_facts(polled: AttemptSnapshot, fresh: AttemptSnapshot) -> Iterator[_Fact]:
    yield "workflow_id", polled.workflow_id, fresh.workflow_id
    yield "task_id", polled.task_id, fresh.task_id
    yield "retry_count", polled.retry_count, fresh.retry_count
    yield "status", AttemptStatus.IN_PROGRESS, fresh.status


def _wide_facts(polled: AttemptSnapshot, fresh: AttemptSnapshot) -> Iterator[_Fact]:
    yield "poll_count", polled.poll_count, fresh.poll_count
    yield "start_time", polled.start_time, fresh.start_time
    yield "scheduled_time", polled.scheduled_time, fresh.scheduled_time
    yield "worker_id", polled.worker_id, fresh.worker_id
    yield "retried", False, fresh.retried


def _first_difference(facts: Iterator[_Fact] | list[_Fact]) -> FenceVerdict:
    for name, expected, found in facts:
        if expected != found:
            return Stale(name, str(expected), MISSING if found is None else str(found))
    return Current()
