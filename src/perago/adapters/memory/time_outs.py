"""Which time-outs are due: of the workflow, of execution, of polling, of the response.

Marks rows; whether a new attempt follows is decided by the retries.
"""

from perago.adapters.memory.conductor_rows import TaskRow, WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.retry_policy import MILLISECONDS_PER_SECOND
from perago.adapters.memory.task_settings import TimeoutPolicy
from perago.adapters.memory.workflow_end import WorkflowEnds
from perago.domain.attempt import AttemptStatus, WorkflowStatus


def check_workflow(state: ConductorState, run: WorkflowRun) -> None:
    """End a workflow that ran longer than its definition allows."""
    seconds = run.definition.get("timeoutSeconds")
    policy = run.definition.get("timeoutPolicy")
    if not isinstance(seconds, int) or seconds <= 0 or policy != TimeoutPolicy.TIME_OUT_WF:
        return
    elapsed = state.now_ms - run.start_time
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        reason = _reason(
            "Workflow timed out", "Timeout", elapsed, seconds, TimeoutPolicy.TIME_OUT_WF
        )
        raise WorkflowEnds(WorkflowStatus.TIMED_OUT, reason)


def check_rows(state: ConductorState, run: WorkflowRun) -> None:
    """Mark the rows whose time is over; the execution time-out comes first."""
    for row in run.open_rows():
        if row.is_queued_type:
            _check_execution(state, row)
            _check_polling(state, row)
            _check_response(state, row)


def _check_execution(state: ConductorState, row: TaskRow) -> None:
    """Heartbeats do not move it: it counts from the start of the attempt."""
    seconds = row.settings.timeout_seconds
    if seconds <= 0 or row.start_time == 0 or row.status.is_terminal:
        return
    elapsed = state.now_ms - row.start_time - row.start_delay_ms
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        policy = row.settings.timeout_policy
        _apply(state, row, _reason("Task timed out", "Timeout", elapsed, seconds, policy))


def _check_polling(state: ConductorState, row: TaskRow) -> None:
    seconds = row.settings.poll_timeout_seconds
    if seconds <= 0 or row.status is not AttemptStatus.SCHEDULED:
        return
    elapsed = state.now_ms - row.scheduled_time - row.start_delay_ms
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        policy = row.settings.timeout_policy
        _apply(state, row, _reason("Task poll timed out", "Poll timeout", elapsed, seconds, policy))


def _check_response(state: ConductorState, row: TaskRow) -> None:
    """Counts from the last heartbeat and is retried whatever the time-out policy says."""
    seconds = row.settings.response_timeout_seconds
    if seconds <= 0 or row.status is not AttemptStatus.IN_PROGRESS:
        return
    if state.now_ms - row.update_time >= seconds * MILLISECONDS_PER_SECOND:
        reason = f"responseTimeout: {seconds} exceeded for the taskId: {row.task_id}"
        _mark(state, row, f"{reason} with Task Definition: {row.task_type}")


def _apply(state: ConductorState, row: TaskRow, reason: str) -> None:
    match row.settings.timeout_policy:
        case TimeoutPolicy.ALERT_ONLY:
            return
        case TimeoutPolicy.RETRY:
            _mark(state, row, reason)
        case TimeoutPolicy.TIME_OUT_WF:
            _mark(state, row, reason)
            raise WorkflowEnds(WorkflowStatus.TIMED_OUT, reason)


def _mark(state: ConductorState, row: TaskRow, reason: str) -> None:
    row.status = AttemptStatus.TIMED_OUT
    row.reason = reason
    row.requeueable = False
    state.dequeue(row)


def _reason(what: str, which: str, elapsed_ms: int, seconds: int, policy: TimeoutPolicy) -> str:
    after = elapsed_ms // MILLISECONDS_PER_SECOND
    return (
        f"{what} after {after} seconds. {which} configured as {seconds} seconds. "
        f"Timeout policy configured to {policy}"
    )
