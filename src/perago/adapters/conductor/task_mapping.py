"""Conductor's JSON of a task row as our values, and our updates as Conductor's JSON.

Pure: the same functions serve whatever client carries the JSON. Null and absent fields are the
same. Must not know who asks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar, cast

from perago.adapters.conductor.json_values import plain_json
from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import UnavailableError

Status = TypeVar("Status", bound=StrEnum)
# TIMED_OUT and SCHEDULED are the server's to give; it answers 500 to a worker that sends them.
SENDABLE = frozenset(
    {
        AttemptStatus.COMPLETED,
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        AttemptStatus.CANCELED,
    }
)


def attempt_record(answer: object) -> AttemptRecord:
    """A task row with what it carries."""
    row = json_object(answer, "a task")
    return AttemptRecord(
        snapshot=attempt_snapshot(row),
        input_data=_data(row, "inputData"),
        output_data=_data(row, "outputData"),
        reason=optional_text(row, "reasonForIncompletion"),
        response_timeout_seconds=_number(row, "responseTimeoutSeconds"),
        queue_wait_ms=_number(row, "queueWaitTime"),
    )


def attempt_snapshot(answer: object) -> AttemptSnapshot:
    """The facts of a task row that fences compare."""
    row = json_object(answer, "a task")
    return AttemptSnapshot(
        workflow_id=required_text(row, "workflowInstanceId"),
        task_id=required_text(row, "taskId"),
        reference_name=required_text(row, "referenceTaskName"),
        task_type=optional_text(row, "taskDefName") or required_text(row, "taskType"),
        status=status_of(AttemptStatus, row),
        retry_count=_number(row, "retryCount"),
        seq=_number(row, "seq"),
        iteration=_number(row, "iteration"),
        poll_count=_number(row, "pollCount"),
        start_time=_number(row, "startTime"),
        scheduled_time=_number(row, "scheduledTime"),
        worker_id=optional_text(row, "workerId"),
        retried_task_id=optional_text(row, "retriedTaskId"),
        retried=row.get("retried") is True,
    )


def workflow_snapshot(answer: object) -> WorkflowSnapshot:
    """A workflow's status with all its rows."""
    workflow = json_object(answer, "a workflow")
    return WorkflowSnapshot(
        workflow_id=required_text(workflow, "workflowId"),
        status=status_of(WorkflowStatus, workflow),
        tasks=tuple(attempt_snapshot(row) for row in json_list(workflow.get("tasks"), "tasks")),
        ended_at=_number(workflow, "endTime"),
    )


def terminal_body(update: TerminalUpdate) -> dict[str, object]:
    """The JSON that ends an attempt; refuses what JSON cannot carry."""
    if update.status not in SENDABLE:
        raise ValueError(f"an attempt does not end as {update.status}; use one of {SENDABLE}")
    body = _update(update.attempt, update.worker_id, update.status)
    body["outputData"] = plain_json(update.output, "output")
    if update.reason is not None:
        body["reasonForIncompletion"] = plain_json(update.reason, "reason")
    return body


def heartbeat_body(attempt: AttemptSnapshot, worker_id: str) -> dict[str, object]:
    """The JSON that extends a lease; the server reads neither its status nor its output."""
    return {**_update(attempt, worker_id, AttemptStatus.IN_PROGRESS), "extendLease": True}


def release_body(attempt: AttemptSnapshot) -> dict[str, object]:
    """The JSON that puts a running row back on the queue at once."""
    body = _update(attempt, attempt.worker_id, AttemptStatus.IN_PROGRESS)
    return {**body, "callbackAfterSeconds": 0}


def _update(
    attempt: AttemptSnapshot, worker_id: str | None, status: AttemptStatus
) -> dict[str, object]:
    return {
        "workflowInstanceId": attempt.workflow_id,
        "taskId": attempt.task_id,
        "workerId": worker_id,
        "status": status.value,
    }


def json_object(value: object, what: str) -> Mapping[str, object]:
    """The value as a JSON object."""
    if not isinstance(value, Mapping):
        raise UnavailableError(f"expected {what} as a JSON object, found {_kind(value)}; {REMEDY}")
    return cast("Mapping[str, object]", value)


def json_list(value: object, what: str) -> list[object]:
    """The value as a JSON list; absent is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnavailableError(f"expected {what} as a JSON list, found {_kind(value)}; {REMEDY}")
    return cast("list[object]", value)


def required_text(row: Mapping[str, object], name: str) -> str:
    """A field that every row of a Conductor has."""
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise UnavailableError(f"expected {name} in the answer, found {_kind(value)}; {REMEDY}")
    return value


def optional_text(row: Mapping[str, object], name: str) -> str | None:
    """A field that may be null or absent."""
    value = row.get(name)
    return None if value is None else str(value)


def status_of(kind: type[Status], row: Mapping[str, object]) -> Status:
    """The status of a row or a workflow."""
    text = required_text(row, "status")
    try:
        return kind(text)
    except ValueError as error:
        raise UnavailableError(f"unknown status {text}, expected one of {list(kind)}") from error


REMEDY = "check that the address is a Conductor API"


def _data(row: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = row.get(name)
    return NO_DATA if value is None else json_object(value, name)


def _number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"
