"""What a task declares beside its function, and the TaskDef that Conductor gets of it.

The first part declares: retries, time-outs, budget, limits, runtime metrics (`metrics` has what a
task function writes its own metrics with). The second writes key order, defaults and schemas as the
public 0.6.1, and compares a TaskDef with the registered one. Who registers it is not known here.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from perago.app.authoring.contract_schema import models_in, schema_for_model, schema_for_result
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import PublishTimes
from perago.domain.errors import TaskDefinitionError
from perago.domain.policy import PolicyName

CONTROL_FIELD_MAP: Mapping[str, tuple[str, ...]] = {
    "retryCount": ("retry", "count"),
    "retryLogic": ("retry", "logic"),
    "retryDelaySeconds": ("retry", "delay_seconds"),
    "maxRetryDelaySeconds": ("retry", "max_delay_seconds"),
    "backoffJitterMs": ("retry", "jitter_ms"),
    "totalTimeoutSeconds": ("timeout", "total_seconds"),
    "timeoutPolicy": ("timeout", "policy"),
    "timeoutSeconds": ("timeout", "seconds"),
    "responseTimeoutSeconds": ("response_timeout_seconds",),
    "pollTimeoutSeconds": ("timeout", "poll_seconds"),
    "concurrentExecLimit": ("limits", "concurrent_exec_limit"),
    "rateLimitFrequencyInSeconds": ("limits", "rate_limit_frequency_in_seconds"),
    "rateLimitPerFrequency": ("limits", "rate_limit_per_frequency"),
}

_NAME = {"minLength": 1, "type": "string"}
_COMMIT = {"const": "commit", "type": "string"}
# Written only when the author sets them, so that their absence is a statement as well.
_OPTIONAL = {
    "description": (None, ""),
    "concurrentExecLimit": (None, 0),
    "rateLimitFrequencyInSeconds": (None, 0, 1),
    "rateLimitPerFrequency": (None, 0),
}
# Written by the server when a definition is stored.
_SERVERS_OWN = frozenset({"createTime", "updateTime", "createdBy", "updatedBy"})
_ABSENT = "(absent)"


class MetricSpec(BaseModel):
    """Switches for the runtime metrics of one task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: bool = True
    """Whether the duration of attempts is measured."""
    workspace_io: bool = True
    """A name of 0.6.1 without effect: transfers are always measured."""
    worker_capacity: bool = True
    """Whether a worker that exports metrics has to have `PERAGO_INSTANCE_ID`."""


_NotNegative = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]


# All defaults of the next two are of 0.6.1: TaskDefs must not change with an upgrade
# (docs/upgrade.md).
class RetryPolicy(BaseModel):
    """How often and how soon Conductor runs a failed task again."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(ge=0, le=10)] = 3
    """Retries after the first attempt, 0 to 10."""
    logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = "FIXED"
    """Whether the pause stays, doubles, or grows by itself with each retry."""
    delay_seconds: _NotNegative = 60
    """The first pause, in seconds."""
    max_delay_seconds: _NotNegative = 0
    """The longest pause, in seconds; 0 means no limit."""
    jitter_ms: _NotNegative = 0
    """Up to so many milliseconds are added to each pause by chance."""


class TimeoutPolicy(BaseModel):
    """When Conductor times a task out, and what it does then; 0 means no limit."""

    model_config = ConfigDict(extra="forbid")

    policy: Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"] = "TIME_OUT_WF"
    """What a time-out does: a retry, the end of the workflow, or a mark alone."""
    seconds: _NotNegative = 0
    """How long an attempt may take from its first poll, in seconds."""
    # Not Conductor's 3600: so long it does not notice a dead worker.
    response_seconds: _NotNegative = 600
    """How long after its last heartbeat an attempt is given up, in seconds."""
    poll_seconds: _NotNegative = 0
    """How long a row may wait for a worker, in seconds."""
    total_seconds: _NotNegative = 0
    """How long all attempts together may take, in seconds."""


class ExecutionLimits(BaseModel):
    """How many executions of a task Conductor lets run at once and per period."""

    model_config = ConfigDict(extra="forbid")

    concurrent_exec_limit: _NotNegative | None = None
    """How many rows of the task may be in progress at once."""
    rate_limit_frequency_in_seconds: _NotNegative | None = None
    """Length of the period, in seconds; only together with the next one."""
    rate_limit_per_frequency: _NotNegative | None = None
    """How many rows may start in a period."""

    @model_validator(mode="after")
    def _rate_needs_both(self) -> Self:
        frequency, per = self.rate_limit_frequency_in_seconds, self.rate_limit_per_frequency
        if (frequency is None) != (per is None):
            raise TaskDefinitionError(
                "rate_limit_frequency_in_seconds and rate_limit_per_frequency"
                " must be configured together",
                code="PRG-T017",
            )
        return self


class PublishBudget(BaseModel):
    """How long publishing may take; the response time-out should cover its sum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    observed_merge_p99_seconds: _NotNegative
    """How long the slowest merge in a hundred took on your lakeFS."""
    safety_margin_seconds: _NotNegative
    """Added to it; the merge time-out must be at least the sum."""
    lakefs_merge_timeout_seconds: _Positive
    """How long an attempt waits for the answer to a merge."""
    conductor_completion_timeout_seconds: _Positive
    """How long the end of an attempt is sent again until Conductor answers."""
    worker_shutdown_grace_seconds: _Positive
    """How long a drain waits for this task's function."""
    heartbeat_interval_seconds: _Positive
    """Seconds between two heartbeats, or a third of the response time-out if less."""

    @model_validator(mode="after")
    def _timeout_covers_what_was_observed(self) -> Self:
        least = self.observed_merge_p99_seconds + self.safety_margin_seconds
        if self.lakefs_merge_timeout_seconds < least:
            raise TaskDefinitionError(
                "lakefs_merge_timeout_seconds must cover observed_merge_p99_seconds"
                " plus safety_margin_seconds",
                code="PRG-T017",
            )
        return self

    @property
    def response_timeout_seconds(self) -> int:
        """The shortest response time-out in which a publication surely fits."""
        return (
            self.lakefs_merge_timeout_seconds
            + self.conductor_completion_timeout_seconds
            + self.worker_shutdown_grace_seconds
            + self.heartbeat_interval_seconds
        )

    def as_value(self) -> PublishTimes:
        """Return the plain value the core computes with."""
        return PublishTimes(
            float(self.lakefs_merge_timeout_seconds),
            float(self.conductor_completion_timeout_seconds),
            float(self.worker_shutdown_grace_seconds),
            float(self.heartbeat_interval_seconds),
        )


class TaskControls(BaseModel):
    """Retries, time-outs, limits and publication policy of a task."""

    model_config = ConfigDict(extra="forbid")

    retry: RetryPolicy = Field(default_factory=RetryPolicy)
    """How often and how soon Conductor runs the task again."""
    timeout: TimeoutPolicy = Field(default_factory=TimeoutPolicy)
    """When Conductor gives an attempt up."""
    limits: ExecutionLimits = Field(default_factory=ExecutionLimits)
    """How many rows run at once and per period."""
    publish_budget: PublishBudget | None = None
    """The times of a publication; without one, Perago's own."""
    publication: PolicyName = "auto"
    """The publication policy; wins over `PERAGO_PUBLICATION_POLICY` unless it is `auto`."""
    body_seconds: _NotNegative = 0
    """How long the task function may run before it is ended; 0 means no limit."""

    @property
    def response_timeout_seconds(self) -> int:
        """Conductor's response time-out; never derived from the publish budget."""
        return self.timeout.response_seconds


@dataclass(frozen=True)
class TaskDefinition:
    """A task: its function, its contract, and what it asks of lakeFS and Conductor."""

    name: str
    owner_email: str
    fn: Callable[..., Any]
    params_model: type[BaseModel]
    output_model: type[BaseModel]
    strict_params: bool = False
    description: str | None = None
    workspace: WorkspaceSpec | None = None
    metrics: MetricSpec | None = None
    controls: TaskControls = field(default_factory=TaskControls)
    on_spark: bool = False
    built_in: bool = False
    """Whether the worker's parent serves it: `fn` is a coroutine of (attempt, params)."""

    @property
    def has_workspace(self) -> bool:
        """Whether the task function gets a workspace."""
        return self.workspace is not None

    @property
    def times(self) -> PublishTimes:
        """How long the parts of a publication of the task may take."""
        budget = self.controls.publish_budget
        return PublishTimes() if budget is None else budget.as_value()

    @property
    def asks_lakefs(self) -> bool:
        """Whether an attempt needs lakeFS before its end."""
        return self.has_workspace or self.built_in


def build_taskdef(task: TaskDefinition) -> dict[str, Any]:
    """Return the TaskDef of a task; warns when its lease is shorter than its publish budget."""
    validate_no_root_task_models(task)
    _warn_of_short_lease(task)
    definition: dict[str, Any] = {"name": task.name, "ownerEmail": task.owner_email}
    if task.description is not None:
        definition["description"] = task.description
    for key, path in CONTROL_FIELD_MAP.items():
        value: Any = task.controls
        for step in path:
            value = getattr(value, step)
        if value is not None:
            definition[key] = value
    inputs = {"params": schema_for_model(task.params_model, allow_extra=not task.strict_params)}
    outputs = {"result": schema_for_result(task.output_model)}
    if task.has_workspace:
        inputs = {"workspace": workspace_schema()} | inputs
        outputs = {"workspace": workspace_schema()} | outputs
    definition["inputKeys"] = list(inputs)
    definition["outputKeys"] = list(outputs)
    definition["inputSchema"] = _schema(f"{task.name}.input", inputs, is_open=True)
    definition["outputSchema"] = _schema(f"{task.name}.output", outputs, is_open=False)
    return definition


def write_taskdef(task: TaskDefinition, output: Path) -> Path:
    """Write the TaskDef of a task as JSON and return the path; parents are created."""
    if output.suffix != ".json":
        message = "output must be a JSON file path, for example generated/features.build.json"
        raise TaskDefinitionError(message, code="PRG-T018")
    if output.is_dir():
        message = "output must be a JSON file path, not a directory"
        raise TaskDefinitionError(message, code="PRG-T018")
    document = json.dumps(build_taskdef(task), indent=2)  # may fail, and then leaves no folder
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"{document}\n", encoding="utf-8")
    return output


def task_models_with_config(task: TaskDefinition) -> list[type[BaseModel]]:
    """Models that carry a ConfigDict, which is not part of the task contract.

    Not those of Perago, such as WorkspaceInput, whose behaviour Perago does answer for.
    """
    return [
        model
        for model in models_in(task.params_model, task.output_model)
        if model.model_config
        and not issubclass(model, RootModel)
        and not model.__module__.startswith("perago.")
    ]


def validate_no_root_task_models(task: TaskDefinition) -> None:
    """Refuse a task whose contract is not made of ordinary object models."""
    found = models_in(task.params_model, task.output_model)
    names = ", ".join(model.__name__ for model in found if issubclass(model, RootModel))
    if names:
        raise TaskDefinitionError(
            f"Pydantic RootModel on task model(s) {names} is not supported;"
            " Perago task contracts must use ordinary BaseModel object models.",
            code="PRG-T012",
        )


def workspace_schema() -> dict[str, Any]:
    """Schema of the workspace object: closed, with the reference type in either spelling."""
    return {
        "properties": {
            "repository": dict(_NAME),
            "branch": dict(_NAME),
            "refType": dict(_COMMIT),
            "ref_type": dict(_COMMIT),
            "ref": dict(_NAME),
        },
        "required": ["repository", "branch", "ref"],
        "anyOf": [{"required": ["refType"]}, {"required": ["ref_type"]}],
        "type": "object",
        "additionalProperties": False,
    }


def _schema(name: str, properties: dict[str, Any], *, is_open: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": is_open,
    }
    definitions: dict[str, Any] = {}
    for schema in properties.values():
        definitions |= schema.pop("$defs", {})
    if definitions:
        data["$defs"] = definitions
    # As 0.6.1 wrote it: Conductor finds a schema by name and version, and this is the only one.
    return {"name": name, "version": 1, "type": "JSON", "data": data}


def _warn_of_short_lease(task: TaskDefinition) -> None:
    budget = task.controls.publish_budget
    if budget is None or (task.workspace is not None and task.workspace.read_only):
        return
    lease, needed = task.controls.response_timeout_seconds, budget.response_timeout_seconds
    if lease < needed:
        warnings.warn(
            f"Task '{task.name}' has TaskControls.timeout.response_seconds={lease} which is"
            f" shorter than publish_budget.response_timeout_seconds={needed};"
            " responseTimeoutSeconds will use timeout.response_seconds",
            UserWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class TaskDefDifference:
    """One field that differs; the path has dots."""

    path: str
    registered: object
    code: object

    def __str__(self) -> str:
        return f"{self.path}: registered {self.registered!r}, code {self.code!r}"


def taskdef_differences(
    registered: Mapping[str, Any], built: Mapping[str, Any]
) -> list[TaskDefDifference]:
    """Return what registering `built` would change, in the order of its fields."""
    found = [
        difference
        for key, value in built.items()
        for difference in _compare(key, registered.get(key, _ABSENT), value)
    ]
    for key, unset in _OPTIONAL.items():
        if key not in built and registered.get(key) not in unset:
            found.append(TaskDefDifference(key, registered[key], _ABSENT))
    return found


def taskdef_to_register(
    registered: Mapping[str, Any] | None, built: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document to store: ours, with the fields of the operator kept."""
    ours = _SERVERS_OWN | set(_OPTIONAL)
    kept = {key: value for key, value in (registered or {}).items() if key not in ours}
    return kept | dict(built)


def _compare(path: str, registered: object, code: object) -> Iterator[TaskDefDifference]:
    there, here = _fields(registered), _fields(code)
    if there is not None and here is not None:
        # Conductor stamps a schema like a definition; deeper down such names are properties.
        stamped = frozenset[str]() if "." in path else _SERVERS_OWN
        for key in dict.fromkeys([*here, *(each for each in there if each not in stamped)]):
            yield from _compare(f"{path}.{key}", there.get(key, _ABSENT), here.get(key, _ABSENT))
    elif registered != code:
        yield TaskDefDifference(path, registered, code)


def _fields(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
