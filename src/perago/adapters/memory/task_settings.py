"""What a task definition means: the server's defaults, its refusals, and the fields it obeys.

Knows Conductor's JSON names; stores nothing and runs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from perago.ports.errors import RequestRefusedError

# What the server answers for a definition with nothing but a name.
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
