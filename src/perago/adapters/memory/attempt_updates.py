"""What a worker's messages do to a row: the end of an attempt, a heartbeat, a release.

Each is a read of the whole row and a later write of it, with nothing compared in between, as on
the server; who may come between the two is decided by the caller.
"""

import json
from collections.abc import Mapping
from typing import cast

from perago.adapters.memory.conductor_rows import TaskRow, copy_of
from perago.adapters.memory.conductor_state import ConductorState
from perago.domain.attempt import NO_DATA, AttemptStatus
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import RequestRefusedError

OFFLOADED_BYTES_MIN = 3 * 1024 * 1024
REFUSED_BYTES_MIN = 10 * 1024 * 1024


def terminal_copy(state: ConductorState, update: TerminalUpdate) -> TaskRow | None:
    """The row as the update leaves it; None when the server ignores the update.

    The workflow that is named is looked up first and not compared with the row's own.
    """
    run = state.run(update.attempt.workflow_id)
    row = state.row(update.attempt.task_id)
    if run.status.is_terminal or row.status.is_terminal:
        return None
    output, size = _as_json(update.output)
    written = copy_of(row)
    written.status = update.status
    written.output_data = output
    written.output_is_offloaded = size > OFFLOADED_BYTES_MIN
    written.reason = update.reason
    written.worker_id = update.worker_id
    written.requeueable = False
    if size > REFUSED_BYTES_MIN:
        written.status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        written.output_data = NO_DATA
        written.reason = f"output of {size} bytes exceeds the limit of {REFUSED_BYTES_MIN}"
    return written


def heartbeat_copy(state: ConductorState, task_id: str) -> TaskRow | None:
    """The row with a new update time and nothing else; None when it has ended."""
    row = state.row(task_id)
    if row.status.is_terminal:
        return None
    written = copy_of(row)
    written.update_time = state.now_ms
    return written


def released_copy(
    state: ConductorState, workflow_id: str, task_id: str, worker_id: str | None
) -> TaskRow | None:
    """The row back on its queue: progress without a lease extension; None when it has ended."""
    run = state.run(workflow_id)
    row = state.row(task_id)
    if run.status.is_terminal or row.status.is_terminal:
        return None
    written = copy_of(row)
    written.status = AttemptStatus.SCHEDULED
    written.worker_id = worker_id
    written.reason = None
    return written


def hand_out(state: ConductorState, row: TaskRow, worker_id: str) -> None:
    """Give a row to a worker; the start time is that of the attempt's first poll."""
    row.status = AttemptStatus.IN_PROGRESS
    row.poll_count += 1
    row.worker_id = worker_id
    row.callback_after_ms = 0
    row.update_time = state.now_ms
    if row.start_time == 0:
        row.start_time = state.now_ms


def _as_json(output: Mapping[str, object]) -> tuple[Mapping[str, object], int]:
    """The output as it travels, and its size."""
    try:
        text = json.dumps(dict(output), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RequestRefusedError(f"output cannot be sent as JSON: {error}") from error
    return cast("dict[str, object]", json.loads(text)), len(text)
