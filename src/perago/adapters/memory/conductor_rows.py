"""Task definitions, task rows and workflows of the in-memory Conductor, as the server stores them.

`complete_definition` adds the server's defaults and makes its refusals; `task_settings` reads the
fields that it obeys; `retry_delay_ms` is its pause before a retry. Knows Conductor's JSON names.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, assert_never

from perago.adapters.memory.system import json_copy
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import RequestRefusedError

# What Conductor 3.32 answers for a definition with nothing but a name (law D4).
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "retryCount": 3,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 60,
        "timeoutPolicy": "TIME_OUT_WF",
        "timeoutSeconds": 0,
        "responseTimeoutSeconds": 3600,
        "backoffScaleFactor": 1,
        "maxRetryDelaySeconds": 0,
        "backoffJitterMs": 0,
        "totalTimeoutSeconds": 0,
        "rateLimitPerFrequency": 0,
        "rateLimitFrequencyInSeconds": 1,
        "inputKeys": [],
        "outputKeys": [],
        "inputTemplate": {},
        "runtimeMetadata": [],
        "taskStatusListenerEnabled": True,
        "enforceSchema": False,
    }
)


class RetryLogic(StrEnum):
    """How the pause before a retry grows."""

    FIXED = "FIXED"
    LINEAR_BACKOFF = "LINEAR_BACKOFF"
    EXPONENTIAL_BACKOFF = "EXPONENTIAL_BACKOFF"


class TimeoutPolicy(StrEnum):
    """What follows from an execution or poll time-out."""

    RETRY = "RETRY"
    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The fields of a definition that the state machine obeys."""

    name: str
    retry_count: int
    retry_logic: RetryLogic
    retry_delay_seconds: int
    backoff_scale_factor: int
    max_retry_delay_seconds: int
    backoff_jitter_ms: int
    timeout_seconds: int
    timeout_policy: TimeoutPolicy
    response_timeout_seconds: int
    poll_timeout_seconds: int
    input_template: Mapping[str, object]


def complete_definition(definition: Mapping[str, object]) -> dict[str, object]:
    """Fill in the server's defaults, or refuse what the server refuses."""
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise RequestRefusedError("a task definition needs a name; give it one")
    given = {key: value for key, value in definition.items() if value is not None}
    full = {**DEFAULTS, **given}
    settings = _read(name, full)
    if settings.retry_count < 0:
        raise RequestRefusedError(
            f"{name}: expected retryCount of 0 or more, found {settings.retry_count}"
        )
    response, timeout = settings.response_timeout_seconds, settings.timeout_seconds
    if response < 1:
        raise RequestRefusedError(f"{name}: expected responseTimeoutSeconds >= 1, found {response}")
    if timeout and response > timeout:
        raise RequestRefusedError(
            f"{name}: expected responseTimeoutSeconds up to timeoutSeconds {timeout}, "
            f"found {response}; lower it or raise timeoutSeconds"
        )
    return full


def task_settings(name: str, definition: Mapping[str, object] | None) -> TaskSettings:
    """Read the fields that are obeyed; a type without a definition has the defaults."""
    return _read(name, {**DEFAULTS, **(definition or {})})


def _read(name: str, full: Mapping[str, object]) -> TaskSettings:
    try:
        logic = RetryLogic(str(full["retryLogic"]))
        policy = TimeoutPolicy(str(full["timeoutPolicy"]))
    except ValueError as error:
        raise RequestRefusedError(f"{name}: {error}") from error
    template = full["inputTemplate"]
    return TaskSettings(
        name=name,
        retry_count=_whole(full, "retryCount"),
        retry_logic=logic,
        retry_delay_seconds=_whole(full, "retryDelaySeconds"),
        backoff_scale_factor=_whole(full, "backoffScaleFactor"),
        max_retry_delay_seconds=_whole(full, "maxRetryDelaySeconds"),
        backoff_jitter_ms=_whole(full, "backoffJitterMs"),
        timeout_seconds=_whole(full, "timeoutSeconds"),
        timeout_policy=policy,
        response_timeout_seconds=_whole(full, "responseTimeoutSeconds"),
        poll_timeout_seconds=_whole(full, "pollTimeoutSeconds"),
        input_template=template if isinstance(template, Mapping) else {},
    )


def _whole(full: Mapping[str, object], field: str) -> int:
    value = full.get(field, 0)
    if not isinstance(value, int):
        raise RequestRefusedError(f"{full.get('name')}: expected a number in {field}: {value!r}")
    return value


Spec: TypeAlias = Mapping[str, object]
ITERATION_MARK = "__"  # the server names tasks of a loop `body__1`, `body__2`

PASSING = frozenset(
    {AttemptStatus.COMPLETED, AttemptStatus.COMPLETED_WITH_ERRORS, AttemptStatus.SKIPPED}
)


# The server calls these rows by their kind, and every other row by the name of its task.
SHOWN_AS: Mapping[str, str] = MappingProxyType(
    {"FORK_JOIN": "FORK", "FORK_JOIN_DYNAMIC": "FORK", "JOIN": "JOIN", "SWITCH": "SWITCH"}
)


@dataclass(slots=True)
class TaskRow:
    """One attempt, as the server stores it; times are its milliseconds."""

    workflow_id: str
    task_id: str
    reference_name: str
    task_type: str
    spec: Spec
    settings: TaskSettings
    input_data: Mapping[str, object]
    status: AttemptStatus = AttemptStatus.SCHEDULED
    retry_count: int = 0
    seq: int = 0
    iteration: int = 0
    poll_count: int = 0
    scheduled_time: int = 0
    start_time: int = 0
    update_time: int = 0
    ended_at: int = 0
    start_delay_ms: int = 0
    callback_after_ms: int = 0
    worker_id: str | None = None
    retried_task_id: str | None = None
    retried: bool = False
    domain: str | None = None
    output_data: Mapping[str, object] = field(default_factory=dict[str, object])
    output_is_offloaded: bool = False
    reason: str | None = None
    requeueable: bool = True
    leads_on: bool = True

    @property
    def is_queued_type(self) -> bool:
        """Whether workers poll it; the rows of forks, loops and the like are the server's own."""
        return is_queued(self.spec)

    @property
    def lets_pass(self) -> bool:
        """Whether the tasks behind it may be scheduled."""
        return self.status in PASSING and not self.retried

    @property
    def queue(self) -> tuple[str, str | None]:
        """The queue it waits in."""
        return self.task_type, self.domain

    def snapshot(self) -> AttemptSnapshot:
        """The facts that fences compare."""
        return AttemptSnapshot(
            workflow_id=self.workflow_id,
            task_id=self.task_id,
            reference_name=self.reference_name,
            task_type=SHOWN_AS.get(str(self.spec.get("type")), self.task_type),
            status=self.status,
            retry_count=self.retry_count,
            seq=self.seq,
            iteration=self.iteration,
            poll_count=self.poll_count,
            start_time=self.start_time,
            scheduled_time=self.scheduled_time,
            worker_id=self.worker_id,
            retried_task_id=self.retried_task_id,
            retried=self.retried,
        )

    def record(self) -> AttemptRecord:
        """The row with what it carries, apart from the server's own copy."""
        is_new = self.status is AttemptStatus.SCHEDULED and not self.poll_count
        return AttemptRecord(
            snapshot=self.snapshot(),
            input_data=json_copy(dict(self.input_data)),
            output_data={} if self.output_is_offloaded else json_copy(dict(self.output_data)),
            reason=self.reason,
            # No worker answers the server's own tasks.
            response_timeout_seconds=(
                self.settings.response_timeout_seconds if self.is_queued_type else 0
            ),
            queue_wait_ms=max(0, self.start_time - self.scheduled_time) if self.start_time else 0,
            ended_at=self.ended_at,
            domain=self.domain if self.is_queued_type else None,  # as the server: for workers only
            delay_seconds=self.callback_after_ms // MILLISECONDS_PER_SECOND if is_new else 0,
        )


@dataclass(slots=True)
class WorkflowRun:
    """One workflow with its rows in the order of their `seq`."""

    workflow_id: str
    definition: Spec
    settings: Mapping[str, TaskSettings]
    input_data: Mapping[str, object]
    start_time: int
    task_to_domain: Mapping[str, str]
    parent: tuple[str, str] | None = None
    status: WorkflowStatus = WorkflowStatus.RUNNING
    ended_at: int = 0
    reason: str | None = None
    output_data: Mapping[str, object] = field(default_factory=dict[str, object])
    variables: dict[str, object] = field(default_factory=dict[str, object])
    rows: dict[str, TaskRow] = field(default_factory=dict[str, TaskRow])

    @property
    def next_seq(self) -> int:
        """The `seq` of the next row."""
        return max((row.seq for row in self.rows.values()), default=0) + 1

    def attempts_of(self, reference_name: str) -> list[TaskRow]:
        """All attempts of one task, oldest first."""
        return [row for row in self.rows.values() if row.reference_name == reference_name]

    def newest_by_name(self, name: str) -> TaskRow | None:
        """The newest row of a task; a name inside a loop means its newest iteration."""
        found = None
        for row in self.rows.values():
            if row.reference_name == name or base_name(row.reference_name) == name:
                found = row
        return found

    def open_rows(self) -> Iterator[TaskRow]:
        """Rows that have not ended."""
        return (row for row in list(self.rows.values()) if not row.status.is_terminal)

    def snapshot(self) -> WorkflowSnapshot:
        """Status and rows in one answer."""
        rows = tuple(row.snapshot() for row in self.rows.values())
        return WorkflowSnapshot(self.workflow_id, self.status, rows, self.ended_at)

    def record(self) -> WorkflowRecord:
        """The workflow as an operator sees it."""
        return WorkflowRecord(
            workflow_id=self.workflow_id,
            status=self.status,
            reason=self.reason,
            input_data=json_copy(dict(self.input_data)),
            output_data=json_copy(dict(self.output_data)),
            attempts=tuple(row.record() for row in self.rows.values()),
            name=str(self.definition["name"]),
        )


def copy_of(row: TaskRow) -> TaskRow:
    """A row as a server thread holds it between its read and its write."""
    return copy(row)


def base_name(reference_name: str) -> str:
    """A reference name without the iteration of its loop."""
    name, mark, iteration = reference_name.rpartition(ITERATION_MARK)
    return name if mark and iteration.isdigit() else reference_name


def is_queued(spec: Spec) -> bool:
    """Whether a task of a definition is handed to workers."""
    return spec.get("type", "SIMPLE") == "SIMPLE"


MILLISECONDS_PER_SECOND = 1000


def retry_delay_ms(settings: TaskSettings, retries_before: int, fraction: float) -> int:
    """Milliseconds before the next attempt may be polled.

    FIXED                d
    LINEAR_BACKOFF       d * scale * (n + 1)
    EXPONENTIAL_BACKOFF  d * 2^n
    then capped by maxRetryDelaySeconds unless that is 0, plus up to backoffJitterMs.
    """
    delay = settings.retry_delay_seconds
    match settings.retry_logic:
        case RetryLogic.FIXED:
            seconds = delay
        case RetryLogic.LINEAR_BACKOFF:
            seconds = delay * settings.backoff_scale_factor * (retries_before + 1)
        case RetryLogic.EXPONENTIAL_BACKOFF:
            seconds = delay * 2**retries_before
        case _:
            assert_never(settings.retry_logic)
    if settings.max_retry_delay_seconds > 0:
        seconds = min(seconds, settings.max_retry_delay_seconds)
    return seconds * MILLISECONDS_PER_SECOND + int(settings.backoff_jitter_ms * fraction)
