"""Definitions, task rows and workflows of the in-memory Conductor, as the server stores them.

`TaskSettings` is a task definition with the server's defaults, and `retry_delay_ms` its pause
before a retry. `check_definition` refuses a workflow that could not run. Knows Conductor's JSON
names.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias, assert_never, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from perago.adapters.memory.system import json_copy
from perago.adapters.memory.workflow_expressions import resolve
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
    as_mapping,
)
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import RequestRefusedError

MILLISECONDS_PER_SECOND = 1000
TimeoutPolicy: TypeAlias = Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"]


class TaskSettings(BaseModel):
    """A task definition, with what Conductor 3.32 answers where it says nothing (law D4)."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", frozen=True, strict=True)

    name: str = Field(min_length=1)
    retry_count: int = Field(default=3, ge=0)
    retry_logic: Literal["FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"] = "FIXED"
    retry_delay_seconds: int = 60
    timeout_policy: TimeoutPolicy = "TIME_OUT_WF"
    timeout_seconds: int = 0
    response_timeout_seconds: int = Field(default=3600, ge=1)
    poll_timeout_seconds: int | None = None
    backoff_scale_factor: int = 1
    max_retry_delay_seconds: int = 0
    backoff_jitter_ms: int = 0
    total_timeout_seconds: int = 0
    rate_limit_per_frequency: int = 0
    rate_limit_frequency_in_seconds: int = 1
    input_keys: list[str] = []
    output_keys: list[str] = []
    input_template: dict[str, Any] = {}
    runtime_metadata: list[Any] = []
    task_status_listener_enabled: bool = True
    enforce_schema: bool = False

    @model_validator(mode="after")
    def _response_is_within_the_time_out(self) -> Self:
        if 0 < self.timeout_seconds < self.response_timeout_seconds:
            raise ValueError(
                f"expected responseTimeoutSeconds up to timeoutSeconds {self.timeout_seconds}, "
                f"found {self.response_timeout_seconds}; lower it or raise timeoutSeconds"
            )
        return self

    @classmethod
    def of(cls, definition: Mapping[str, object]) -> Self:
        """Read a definition, or refuse what the server refuses."""
        given = {key: value for key, value in definition.items() if value is not None}
        try:
            return cls.model_validate(json_copy(given))
        except ValidationError as error:
            said = "; ".join(
                " ".join(map(str, (*each["loc"], each["msg"]))) for each in error.errors()
            )
            raise RequestRefusedError(f"task definition {given.get('name')}: {said}") from error

    def definition(self) -> dict[str, object]:
        """The definition as the server shows it."""
        return self.model_dump(by_alias=True, exclude_none=True)


def retry_delay_ms(settings: TaskSettings, retries_before: int, fraction: float) -> int:
    """Milliseconds before the next attempt may be polled.

    FIXED                d
    LINEAR_BACKOFF       d * scale * (n + 1)
    EXPONENTIAL_BACKOFF  d * 2^n
    then capped by maxRetryDelaySeconds unless that is 0, plus up to backoffJitterMs.
    """
    seconds = settings.retry_delay_seconds
    match settings.retry_logic:
        case "FIXED":
            pass
        case "LINEAR_BACKOFF":
            seconds *= settings.backoff_scale_factor * (retries_before + 1)
        case "EXPONENTIAL_BACKOFF":
            seconds *= 2**retries_before
        case _:
            assert_never(settings.retry_logic)
    if settings.max_retry_delay_seconds > 0:
        seconds = min(seconds, settings.max_retry_delay_seconds)
    return seconds * MILLISECONDS_PER_SECOND + int(settings.backoff_jitter_ms * fraction)


Spec: TypeAlias = Mapping[str, object]  # a task, or the whole, of a workflow definition
TASK_ID_NAME = "CPEWF_TASK_ID"  # the server's name for `${CPEWF_TASK_ID}` in an input
# No expression is taken: the server checks it when the workflow is defined.
TERMINATION_STATUSES = frozenset({"COMPLETED", "FAILED", "TERMINATED"})


def kind_of(spec: Spec) -> str:
    """The kind of a task; without one it is for workers."""
    return str(spec.get("type", "SIMPLE"))


def specs_in(value: object) -> Sequence[Spec]:
    """The list of tasks in a field of a definition; empty when the field is absent."""
    return cast("Sequence[Spec]", value) if isinstance(value, list | tuple) else ()


def specs_of(tasks: object) -> Iterator[Spec]:
    """Every task of a list of tasks, the ones inside others included."""
    for spec in specs_in(tasks):
        yield spec
        inside = spec.get("loopOver"), spec.get("defaultCase"), *specs_in(spec.get("forkTasks"))
        for part in (*inside, *as_mapping(spec.get("decisionCases")).values()):
            yield from specs_of(part)


def check_definition(definition: Spec, kinds: Collection[str]) -> dict[str, object]:
    """Refuse a definition that could not run; else the definition with its version."""
    name = definition.get("name")
    specs = list(specs_of(definition.get("tasks")))
    if not isinstance(name, str) or not name or not specs:
        raise RequestRefusedError("a workflow definition needs a name and at least one task")
    for spec in specs:
        _check_spec(spec, kinds)
    counted = Counter(str(spec["taskReferenceName"]) for spec in specs)
    if twice := [reference for reference, count in counted.items() if count > 1]:
        raise RequestRefusedError(f"{name}: taskReferenceName should be unique: {twice}")
    defined = {"workflow", TASK_ID_NAME, *counted}
    for spec in specs:
        referred: list[str] = []
        resolve(spec.get("inputParameters"), referred.append)  # looks every first name up
        if undefined := [each for each in referred if each not in defined]:
            raise RequestRefusedError(
                f"{name}: task {spec['taskReferenceName']} refers to {undefined[0]!r}, "
                "which is not defined in the workflow definition"
            )
    return {"version": 1, **definition}


def _check_spec(spec: Spec, kinds: Collection[str]) -> None:
    for name in ("name", "taskReferenceName"):
        if not isinstance(spec.get(name), str) or not spec[name]:
            raise RequestRefusedError(f"a task of a workflow needs {name}, found {spec}")
    if kind_of(spec) not in kinds:
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: the in-memory Conductor runs "
            f"{', '.join(sorted(kinds))}, found {kind_of(spec)}; run it on a real server"
        )
    ends_as = as_mapping(spec.get("inputParameters")).get("terminationStatus")
    if kind_of(spec) == "TERMINATE" and ends_as not in TERMINATION_STATUSES:
        raise RequestRefusedError(
            f"terminate task must have a terminationStatus parameter and must be set to COMPLETED "
            f"or FAILED, taskName: {spec['name']}"
        )
    if kind_of(spec) == "SWITCH" and spec.get("evaluatorType") != "value-param":
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: expected evaluatorType value-param, "
            f"found {spec.get('evaluatorType')}; the in-memory Conductor runs no scripts"
        )


ITERATION_MARK = "__"  # the server names tasks of a loop `body__1`, `body__2`
PASSING = frozenset(
    {AttemptStatus.COMPLETED, AttemptStatus.COMPLETED_WITH_ERRORS, AttemptStatus.SKIPPED}
)
# The server calls these rows by their kind, and every other row by the name of its task.
SHOWN_AS: Mapping[str, str] = MappingProxyType(
    {"FORK_JOIN": "FORK", "FORK_JOIN_DYNAMIC": "FORK", "JOIN": "JOIN", "SWITCH": "SWITCH"}
)


_FACTS = attrgetter(*(each.name for each in fields(AttemptSnapshot)))


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
        return kind_of(self.spec) == "SIMPLE"

    @property
    def lets_pass(self) -> bool:
        """Whether the tasks behind it may be scheduled."""
        return self.status in PASSING and not self.retried

    @property
    def queue(self) -> tuple[str, str | None]:
        return self.task_type, self.domain

    def snapshot(self) -> AttemptSnapshot:
        """The facts that fences compare: each is a field of the row, by the same name."""
        return AttemptSnapshot(*_FACTS(self))

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
        return max((row.seq for row in self.rows.values()), default=0) + 1

    def attempts_of(self, reference_name: str) -> list[TaskRow]:
        """All attempts of one task, oldest first."""
        return [row for row in self.rows.values() if row.reference_name == reference_name]

    def newest_by_name(self, name: str) -> TaskRow | None:
        """The newest row of a task; a name inside a loop means its newest iteration."""
        for row in reversed(self.rows.values()):
            if name in {row.reference_name, base_name(row.reference_name)}:
                return row
        return None

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


def base_name(reference_name: str) -> str:
    """A reference name without the iteration of its loop."""
    name, mark, iteration = reference_name.rpartition(ITERATION_MARK)
    return name if mark and iteration.isdigit() else reference_name


def name_in_loop(reference_name: str, iteration: int) -> str:
    """The name of a task's rows; inside a loop it carries the iteration."""
    return f"{reference_name}{ITERATION_MARK}{iteration}" if iteration else reference_name
