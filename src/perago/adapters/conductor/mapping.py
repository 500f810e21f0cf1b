"""Conductor's JSON as our values, and our values as Conductor's JSON.

Null and absent fields are the same. What is sent is checked before it leaves: the server answers
NaN with 500, and a value that JSON cannot carry must not arrive as another. Does not know who asks.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar, cast

from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)
from perago.ports.conductor import HandBack, LastPoll, TerminalUpdate, WorkflowRecord
from perago.ports.errors import RequestRefusedError, UnavailableError

Status = TypeVar("Status", bound=StrEnum)


def attempt_record(answer: object) -> AttemptRecord:
    """A task row with what it carries."""
    row = json_object(answer, "a task")
    snapshot = attempt_snapshot(row)
    # The server sets it to 0 at a poll, and leaves it where the row ended without one. After a
    # hand back it counts from another time.
    is_new = snapshot.status is AttemptStatus.SCHEDULED and not snapshot.poll_count
    return AttemptRecord(
        snapshot=snapshot,
        input_data=_data(row, "inputData"),
        output_data=_data(row, "outputData"),
        reason=_optional_text(row, "reasonForIncompletion"),
        response_timeout_seconds=_number(row, "responseTimeoutSeconds"),
        queue_wait_ms=_number(row, "queueWaitTime"),
        ended_at=_number(row, "endTime"),
        domain=_optional_text(row, "domain") or None,
        delay_seconds=_number(row, "callbackAfterSeconds") if is_new else 0,
    )


def attempt_snapshot(answer: object) -> AttemptSnapshot:
    """The facts of a task row that fences compare."""
    row = json_object(answer, "a task")
    return AttemptSnapshot(
        workflow_id=_text(row, "workflowInstanceId"),
        task_id=_text(row, "taskId"),
        reference_name=_text(row, "referenceTaskName"),
        task_type=_optional_text(row, "taskDefName") or _text(row, "taskType"),
        status=_status(AttemptStatus, row),
        retry_count=_number(row, "retryCount"),
        seq=_number(row, "seq"),
        iteration=_number(row, "iteration"),
        poll_count=_number(row, "pollCount"),
        start_time=_number(row, "startTime"),
        scheduled_time=_number(row, "scheduledTime"),
        worker_id=_optional_text(row, "workerId"),
        retried_task_id=_optional_text(row, "retriedTaskId"),
        retried=row.get("retried") is True,
    )


def workflow_snapshot(answer: object) -> WorkflowSnapshot:
    """A workflow's status with all its rows."""
    workflow = json_object(answer, "a workflow")
    return WorkflowSnapshot(
        workflow_id=_text(workflow, "workflowId"),
        status=_status(WorkflowStatus, workflow),
        tasks=tuple(attempt_snapshot(row) for row in json_list(workflow.get("tasks"), "tasks")),
        ended_at=_number(workflow, "endTime"),
    )


def workflow_record(answer: object) -> WorkflowRecord:
    """A workflow as an operator sees it, its rows in the order in which they were scheduled."""
    workflow = json_object(answer, "a workflow")
    return WorkflowRecord(
        workflow_id=_text(workflow, "workflowId"),
        status=_status(WorkflowStatus, workflow),
        reason=_optional_text(workflow, "reasonForIncompletion"),
        input_data=_data(workflow, "input"),
        output_data=_data(workflow, "output"),
        attempts=tuple(attempt_record(row) for row in json_list(workflow.get("tasks"), "tasks")),
        name=_optional_text(workflow, "workflowName") or "",
    )


NO_DOMAIN = "DEFAULT"  # what the server calls it where polls are kept


def last_poll(answer: object) -> LastPoll:
    """One row of poll data."""
    row = json_object(answer, "a poll")
    domain = _optional_text(row, "domain")
    return LastPoll(
        worker_id=_optional_text(row, "workerId") or "",
        at=datetime.fromtimestamp(_number(row, "lastPollTime") / 1000, UTC),
        domain=None if domain in {None, NO_DOMAIN} else domain,
    )


def waiting_rows(answer: object, task_type: str) -> dict[str | None, int]:
    """The queues of a type; `domain:type` is one of a domain."""
    queues = json_object(answer, "queues")
    named = {name: name.rpartition(":") for name in queues}
    return {
        domain if separator else None: _number(queues, name)
        for name, (domain, separator, of_type) in named.items()
        if of_type == task_type and _number(queues, name)
    }


def terminal_body(update: TerminalUpdate) -> dict[str, object]:
    """The JSON that ends an attempt; refuses what JSON cannot carry."""
    body = _update(update.attempt, update.worker_id, update.status)
    body["outputData"] = plain_json(update.output, "output")
    if update.reason is not None:
        body["reasonForIncompletion"] = plain_json(update.reason, "reason")
    return body


def heartbeat_body(attempt: AttemptSnapshot, worker_id: str) -> dict[str, object]:
    """The JSON that extends a lease; the server reads neither its status nor its output."""
    return {**_update(attempt, worker_id, AttemptStatus.IN_PROGRESS), "extendLease": True}


def hand_back_body(given: HandBack) -> dict[str, object]:
    """The JSON that puts a running row back on the queue with what it is to remember."""
    return {
        **_update(given.attempt, given.worker_id, AttemptStatus.IN_PROGRESS),
        "outputData": plain_json(given.output, "output"),
        "reasonForIncompletion": plain_json(given.reason, "reason"),
        "callbackAfterSeconds": given.after_seconds,
    }


def _update(
    row: AttemptSnapshot, worker_id: str | None, status: AttemptStatus
) -> dict[str, object]:
    ids = {"workflowInstanceId": row.workflow_id, "taskId": row.task_id}
    return {**ids, "workerId": worker_id, "status": status.value}


def plain_json(value: object, where: str) -> object:
    """A copy made of plain dictionaries and lists; raises RequestRefusedError with the path."""
    match value:
        case Mapping():
            entries = cast("Mapping[object, object]", value)
            return {_key(k, where): plain_json(v, f"{where}.{k}") for k, v in entries.items()}
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return [plain_json(item, f"{where}[{i}]") for i, item in enumerate(items)]
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                problem = f"{where} contains half of a character ({error.reason})"
                raise _unsendable(problem, "return text that is valid Unicode") from error
        case float() if not math.isfinite(value):
            problem = f"{where} is {value}, which JSON cannot express"
            raise _unsendable(problem, "return a finite number or None")
        case None | bool() | int() | float():
            pass
        case _:
            problem = f"{where} is a {type(value).__name__}, which JSON cannot express"
            remedy = "return text, numbers, booleans, lists and dictionaries"
            raise _unsendable(problem, remedy)
    return value


def _key(key: object, where: str) -> object:
    if not isinstance(key, str):
        problem = f"{where} has the key {key!r} of type {type(key).__name__}"
        raise _unsendable(problem, "keys of JSON objects are text")
    return plain_json(key, where)


def _unsendable(problem: str, remedy: str) -> RequestRefusedError:
    return RequestRefusedError(f"{problem}; nothing was sent; {remedy}")


def json_object(value: object, what: str) -> Mapping[str, object]:
    """The value as a JSON object."""
    if not isinstance(value, Mapping):
        raise _unexpected(f"{what} as a JSON object", value)
    return cast("Mapping[str, object]", value)


def json_list(value: object, what: str) -> list[object]:
    """The value as a JSON list; absent is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unexpected(f"{what} as a JSON list", value)
    return cast("list[object]", value)


def _text(row: Mapping[str, object], name: str) -> str:
    """A field that every row of a Conductor has."""
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise _unexpected(f"{name} in the answer", value)
    return value


def _optional_text(row: Mapping[str, object], name: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(value)


def _status(kind: type[Status], row: Mapping[str, object]) -> Status:
    text = _text(row, "status")
    try:
        return kind(text)
    except ValueError as error:
        raise UnavailableError(f"unknown status {text}, expected one of {list(kind)}") from error


def _data(row: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = row.get(name)
    return NO_DATA if value is None else json_object(value, name)


def _number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _unexpected(expected: str, found: object) -> UnavailableError:
    shown = "nothing" if found is None else f"{type(found).__name__} {str(found)[:60]!r}"
    return UnavailableError(
        f"expected {expected}, found {shown}; check that the address is a Conductor API"
    )
