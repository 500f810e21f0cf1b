"""Attempts as the callbacks of 0.6.1 see them: any object with the right attributes.

Translates such objects into the values the core compares. Reads no server.
"""

from dataclasses import dataclass
from typing import Any

from perago.domain import staging_branch_name as staging
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.attempt_fence import Stale, compare_narrow
from perago.domain.errors import StaleAttemptError

_STATUSES = frozenset(each.value for each in AttemptStatus)


@dataclass(frozen=True)
class StagedWorkspace:
    """A staged commit with the branch that keeps it."""

    repository: str
    branch: str
    commit: str


@dataclass(frozen=True)
class TaskExecutionContext:
    """One execution of an attempt; attributes it does not have are those of the attempt."""

    attempt: Any
    execution_id: str

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the attempt has
        return getattr(self.attempt, name)


def staging_branch_name(task: object) -> str:
    """Name the staging branch of an execution given as an object."""
    execution_id = ExecutionId(str(_required(task, "execution_id")))
    return staging.staging_branch_name(snapshot_of(task), execution_id)


def snapshot_of(task: object) -> AttemptSnapshot:
    """The attempt that an object describes."""
    return AttemptSnapshot(
        workflow_id=str(_required(task, "workflow_instance_id")),
        task_id=str(_required(task, "task_id")),
        reference_name=str(_required(task, "reference_task_name")),
        task_type=str(getattr(task, "task_def_name", "")),
        status=AttemptStatus(str(getattr(task, "status", AttemptStatus.IN_PROGRESS))),
        retry_count=_required(task, "retry_count"),
        seq=_required(task, "seq"),
        iteration=_required(task, "iteration"),
    )


def assert_current_attempt_snapshot(task: object, fresh: object) -> None:
    """Raise `StaleAttemptError` unless `fresh` still shows the attempt `task` was polled as."""
    status = str(_required(fresh, "status"))
    polled = _identity(task, AttemptStatus.IN_PROGRESS)
    if status not in _STATUSES:
        verdict = Stale("status", AttemptStatus.IN_PROGRESS, status)
        raise StaleAttemptError(polled.task_id, stale=verdict)
    compared = compare_narrow(polled, _identity(fresh, AttemptStatus(status)))
    if isinstance(compared, Stale):
        raise StaleAttemptError(polled.task_id, stale=compared)


def _identity(task: object, status: AttemptStatus) -> AttemptSnapshot:
    return AttemptSnapshot(
        workflow_id=_required(task, "workflow_instance_id"),
        task_id=_required(task, "task_id"),
        reference_name="",
        task_type="",
        status=status,
        retry_count=_required(task, "retry_count"),
    )


def _required(task: object, name: str) -> Any:  # noqa: ANN401  # whatever the caller's object has
    missing = object()
    value = getattr(task, name, missing)
    if value is missing:
        raise AttributeError(f"task is missing required attribute {name}")
    return value
