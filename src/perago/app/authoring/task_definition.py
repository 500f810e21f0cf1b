"""What a task declares beside its function: retries, time-outs, budget, limits, runtime metrics.

Declares only. `metrics` has what a task function writes its own metrics with.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import PublishBudget as PublishBudgetValue
from perago.domain.errors import TaskDefinitionError
from perago.domain.policy import PolicyName


class MetricSpec(BaseModel):
    """Switches for the runtime metrics of one task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: bool = True
    """Whether the duration of attempts is measured."""
    workspace_io: bool = True
    """A name of 0.6.1 without effect: transfers are always measured."""
    worker_capacity: bool = True
    """Whether a worker that exports metrics has to have `PERAGO_INSTANCE_ID`."""


# Names and values of 0.6.1, whose TaskDefs must not change with an upgrade (docs/upgrade.md). 0
# means no limit. 600 s and not Conductor's 3600: so long it does not notice a dead worker.
DEFAULT_RETRY_COUNT = 3
MAX_RETRY_COUNT = 10
DEFAULT_RETRY_LOGIC: Literal["FIXED"] = "FIXED"
DEFAULT_RETRY_DELAY_SECONDS = 60
DEFAULT_RETRY_MAX_DELAY_SECONDS = 0
DEFAULT_RETRY_JITTER_MS = 0
DEFAULT_TIMEOUT_POLICY: Literal["TIME_OUT_WF"] = "TIME_OUT_WF"
DEFAULT_TIMEOUT_SECONDS = 0
DEFAULT_TIMEOUT_RESPONSE_SECONDS = 600
DEFAULT_TIMEOUT_POLL_SECONDS = 0
DEFAULT_TIMEOUT_TOTAL_SECONDS = 0

_NotNegative = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]


class RetryPolicy(BaseModel):
    """How often and how soon Conductor runs a failed task again."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(ge=0, le=MAX_RETRY_COUNT)] = DEFAULT_RETRY_COUNT
    """Retries after the first attempt, 0 to 10."""
    logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = DEFAULT_RETRY_LOGIC
    """Whether the pause stays, doubles, or grows by itself with each retry."""
    delay_seconds: _NotNegative = DEFAULT_RETRY_DELAY_SECONDS
    """The first pause, in seconds."""
    max_delay_seconds: _NotNegative = DEFAULT_RETRY_MAX_DELAY_SECONDS
    """The longest pause, in seconds; 0 means no limit."""
    jitter_ms: _NotNegative = DEFAULT_RETRY_JITTER_MS
    """Up to so many milliseconds are added to each pause by chance."""


class TimeoutPolicy(BaseModel):
    """When Conductor times a task out, and what it does then; 0 means no limit."""

    model_config = ConfigDict(extra="forbid")

    policy: Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"] = DEFAULT_TIMEOUT_POLICY
    """What a time-out does: a retry, the end of the workflow, or a mark alone."""
    seconds: _NotNegative = DEFAULT_TIMEOUT_SECONDS
    """How long an attempt may take from its first poll, in seconds."""
    response_seconds: _NotNegative = DEFAULT_TIMEOUT_RESPONSE_SECONDS
    """How long after its last heartbeat an attempt is given up, in seconds."""
    poll_seconds: _NotNegative = DEFAULT_TIMEOUT_POLL_SECONDS
    """How long a row may wait for a worker, in seconds."""
    total_seconds: _NotNegative = DEFAULT_TIMEOUT_TOTAL_SECONDS
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
        return self.as_value().response_timeout_seconds

    def as_value(self) -> PublishBudgetValue:
        """Return the plain value the core computes with."""
        return PublishBudgetValue(**self.model_dump())


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
    """Whether the worker's parent serves it: `fn` is a coroutine of (ports, attempt, params)."""

    @property
    def has_workspace(self) -> bool:
        """Whether the task function gets a workspace."""
        return self.workspace is not None

    @property
    def asks_lakefs(self) -> bool:
        """Whether an attempt needs lakeFS before its end."""
        return self.has_workspace or self.built_in
