"""Which of the runtime's own metrics a task reports.

Declares only; `metric_recorder` is what a task function writes its own metrics with.
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
    workspace_io: bool = True
    worker_capacity: bool = True


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
    logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = DEFAULT_RETRY_LOGIC
    delay_seconds: _NotNegative = DEFAULT_RETRY_DELAY_SECONDS
    max_delay_seconds: _NotNegative = DEFAULT_RETRY_MAX_DELAY_SECONDS
    jitter_ms: _NotNegative = DEFAULT_RETRY_JITTER_MS


class TimeoutPolicy(BaseModel):
    """When Conductor times a task out, and what it does then; 0 means no limit."""

    model_config = ConfigDict(extra="forbid")

    policy: Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"] = DEFAULT_TIMEOUT_POLICY
    seconds: _NotNegative = DEFAULT_TIMEOUT_SECONDS
    response_seconds: _NotNegative = DEFAULT_TIMEOUT_RESPONSE_SECONDS
    poll_seconds: _NotNegative = DEFAULT_TIMEOUT_POLL_SECONDS
    total_seconds: _NotNegative = DEFAULT_TIMEOUT_TOTAL_SECONDS


class ExecutionLimits(BaseModel):
    """How many executions of a task Conductor lets run at once and per period."""

    model_config = ConfigDict(extra="forbid")

    concurrent_exec_limit: _NotNegative | None = None
    rate_limit_frequency_in_seconds: _NotNegative | None = None
    rate_limit_per_frequency: _NotNegative | None = None

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
    safety_margin_seconds: _NotNegative
    lakefs_merge_timeout_seconds: _Positive
    conductor_completion_timeout_seconds: _Positive
    worker_shutdown_grace_seconds: _Positive
    heartbeat_interval_seconds: _Positive

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
    timeout: TimeoutPolicy = Field(default_factory=TimeoutPolicy)
    limits: ExecutionLimits = Field(default_factory=ExecutionLimits)
    publish_budget: PublishBudget | None = None
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
