"""The text form of an attempt marker: `.perago-attempt.json`, sorted keys, a superset of 0.6.1's.

Knows neither directories nor locks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.attempt_directory import AttemptMarker


@dataclass(frozen=True, slots=True)
class StampedMarker:
    """A marker with what the machine adds: process, moment, and the directory's identity."""

    marker: AttemptMarker
    owner_pid: int
    started_at: datetime
    device: int = 0
    inode: int = 0


def marker_text(stamped: StampedMarker) -> str:
    """Write a marker."""
    attempt = stamped.marker.attempt
    fields: dict[str, object] = {
        "device": stamped.device,
        "execution_id": stamped.marker.execution_id,
        "inode": stamped.inode,
        "iteration": attempt.iteration,
        "owner_pid": stamped.owner_pid,
        "owner_token": stamped.marker.execution_id,
        "owner_worker_id": stamped.marker.owner_worker_id,
        "poll_count": attempt.poll_count,
        "reference_name": attempt.reference_name,
        "repository": stamped.marker.repository,
        "retried_task_id": attempt.retried_task_id,
        "retry_count": attempt.retry_count,
        "scheduled_time": attempt.scheduled_time,
        "seq": attempt.seq,
        "staging_branch": stamped.marker.staging_branch,
        "start_time": attempt.start_time,
        "started_at": stamped.started_at.isoformat(),
        "status": str(attempt.status),
        "task_def_name": attempt.task_type,
        "task_id": attempt.task_id,
        "worker_id": attempt.worker_id,
        "workflow_instance_id": attempt.workflow_id,
    }
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def read_marker(text: str) -> StampedMarker | None:
    """Read a marker, or None for what is not one; 0.6.1's markers lack the newer fields."""
    try:
        parsed: object = json.loads(text)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    fields = cast("Mapping[str, object]", parsed)
    try:
        return StampedMarker(
            marker=AttemptMarker(
                attempt=_attempt(fields),
                execution_id=ExecutionId(_text(fields, "execution_id")),
                owner_worker_id=_text(fields, "owner_worker_id"),
                staging_branch=_optional(fields, "staging_branch"),
                repository=_optional(fields, "repository"),
            ),
            owner_pid=_number(fields, "owner_pid"),
            started_at=_moment(_text(fields, "started_at")),
            device=_number(fields, "device"),
            inode=_number(fields, "inode"),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _attempt(fields: Mapping[str, object]) -> AttemptSnapshot:
    return AttemptSnapshot(
        workflow_id=_text(fields, "workflow_instance_id"),
        task_id=_text(fields, "task_id"),
        reference_name=_optional(fields, "reference_name") or "",
        task_type=_text(fields, "task_def_name"),
        status=AttemptStatus(_optional(fields, "status") or AttemptStatus.IN_PROGRESS),
        retry_count=_number(fields, "retry_count"),
        seq=_number(fields, "seq"),
        iteration=_number(fields, "iteration"),
        poll_count=_number(fields, "poll_count"),
        start_time=_number(fields, "start_time"),
        scheduled_time=_number(fields, "scheduled_time"),
        worker_id=_optional(fields, "worker_id"),
        retried_task_id=_optional(fields, "retried_task_id"),
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _optional(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int):
        raise TypeError(name)
    return value
