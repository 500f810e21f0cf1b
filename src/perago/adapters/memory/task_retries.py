"""What follows from an attempt that ended badly: another attempt, going on, or the end.

Knows the counts of the definition; the pause is `retry_policy`'s.
"""

from typing import Never

from perago.adapters.memory.conductor_rows import PASSING, TaskRow, WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.retry_policy import retry_delay_ms
from perago.adapters.memory.task_scheduling import schedule_next
from perago.adapters.memory.workflow_end import WorkflowEnds
from perago.domain.attempt import AttemptStatus, WorkflowStatus

RETRIABLE = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMED_OUT})


def settle_failures(state: ConductorState, run: WorkflowRun) -> list[tuple[TaskRow, AttemptStatus]]:
    """Settle every attempt that ended badly; returns the forgiven ones with what they were.

    FAILED, TIMED_OUT with retries left   a new attempt
    anything else of an optional task     COMPLETED_WITH_ERRORS, the workflow goes on
    FAILED, terminal error                the workflow is FAILED
    TIMED_OUT                             the workflow is TIMED_OUT
    CANCELED by a worker                  the workflow is TERMINATED
    """
    forgiven: list[tuple[TaskRow, AttemptStatus]] = []
    for row in list(run.rows.values()):
        if not row.status.is_terminal or row.status in PASSING or row.retried:
            continue
        if row.status in RETRIABLE and row.retry_count < _retries_max(row):
            delay = retry_delay_ms(row.settings, row.retry_count, state.random.random())
            schedule_next(state, run, row, delay_ms=delay, reason=row.reason)
        elif row.spec.get("optional") is True:
            forgiven.append((row, row.status))
            row.status = AttemptStatus.COMPLETED_WITH_ERRORS
        else:
            _end(row)
    return forgiven


def _end(row: TaskRow) -> Never:
    match row.status:
        case AttemptStatus.TIMED_OUT:
            status = WorkflowStatus.TIMED_OUT
        case AttemptStatus.CANCELED:
            status = WorkflowStatus.TERMINATED
        case _:
            status = WorkflowStatus.FAILED
    why = "null" if row.reason is None else row.reason
    raise WorkflowEnds(
        status, f"Task {row.task_id} failed with status: {status} and reason: '{why}'"
    )


def _retries_max(row: TaskRow) -> int:
    """The workflow's own count wins; kinds that no worker polls are retried only by hand."""
    own = row.spec.get("retryCount")
    if isinstance(own, int):
        return own
    return row.settings.retry_count if row.is_queued_type else 0
