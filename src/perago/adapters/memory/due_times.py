"""When something will happen by itself in the in-memory Conductor: the next time on any clock.

Looks at queues and time-outs; what happens then is decided elsewhere.
"""

from collections.abc import Iterator

from perago.adapters.memory.conductor_rows import TaskRow, WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.retry_policy import MILLISECONDS_PER_SECOND
from perago.adapters.memory.workflow_steps.wait import wakes_at_ms
from perago.domain.attempt import AttemptStatus, WorkflowStatus


def next_due_ms(state: ConductorState) -> int | None:
    """The next moment at which a row is due or its time is over; None when there is none."""
    times = [time for time in _times(state) if time > state.now_ms]
    return min(times, default=None)


def _times(state: ConductorState) -> Iterator[int]:
    yield from state.queued_times_ms()
    for run in state.runs.values():
        if run.status is WorkflowStatus.RUNNING:
            yield from _end_of(run)
            for row in run.open_rows():
                yield from _ends_of(row)


def _end_of(run: WorkflowRun) -> Iterator[int]:
    seconds = run.definition.get("timeoutSeconds")
    if isinstance(seconds, int) and seconds > 0:
        yield run.start_time + seconds * MILLISECONDS_PER_SECOND


def _ends_of(row: TaskRow) -> Iterator[int]:
    """When a row's time-outs are due, and when it wakes by itself."""
    wakes = wakes_at_ms(row)
    if wakes is not None:
        yield wakes
    if not row.is_queued_type:
        return
    settings = row.settings
    limits = (
        (settings.response_timeout_seconds, row.update_time, AttemptStatus.IN_PROGRESS),
        (
            settings.poll_timeout_seconds,
            row.scheduled_time + row.start_delay_ms,
            AttemptStatus.SCHEDULED,
        ),
        (settings.timeout_seconds, row.start_time + row.start_delay_ms, AttemptStatus.IN_PROGRESS),
    )
    for seconds, since, status in limits:
        if seconds > 0 and row.status is status:
            yield since + seconds * MILLISECONDS_PER_SECOND
