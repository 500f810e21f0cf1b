"""Controls: defaults, bounds and the rules between fields, as 0.6.1 has them."""

from dataclasses import replace
from math import inf

import pytest
from pydantic import BaseModel, ValidationError

from perago.app.authoring.task_definition import (
    ExecutionLimits,
    MetricSpec,
    PublishBudget,
    RetryPolicy,
    TaskControls,
    TaskDefinition,
    TimeoutPolicy,
)
from perago.domain.attempt import PublishTimes

BUDGET = {
    "observed_merge_p99_seconds": 20,
    "safety_margin_seconds": 25,
    "lakefs_merge_timeout_seconds": 45,
    "conductor_completion_timeout_seconds": 15,
    "worker_shutdown_grace_seconds": 30,
    "heartbeat_interval_seconds": 10,
}


@pytest.mark.parametrize(
    ("model", "defaults"),
    [
        (
            RetryPolicy,
            {
                "count": 3,
                "logic": "FIXED",
                "delay_seconds": 60,
                "max_delay_seconds": 0,
                "jitter_ms": 0,
            },
        ),
        (
            TimeoutPolicy,
            {
                "policy": "TIME_OUT_WF",
                "seconds": 0,
                "response_seconds": 600,
                "poll_seconds": 0,
                "total_seconds": 0,
            },
        ),
        (
            ExecutionLimits,
            {
                "concurrent_exec_limit": None,
                "rate_limit_frequency_in_seconds": None,
                "rate_limit_per_frequency": None,
            },
        ),
        (MetricSpec, {"attempts": True, "workspace_io": True, "worker_capacity": True}),
    ],
    ids=lambda value: getattr(value, "__name__", "defaults"),
)
def test_defaults(model: type[BaseModel], defaults: dict[str, object]) -> None:
    assert model().model_dump() == defaults


@pytest.mark.parametrize(
    ("model", "values", "text"),
    [
        (RetryPolicy, {"count": 11}, "less than or equal to 10"),
        (RetryPolicy, {"count": -1}, "greater than or equal to 0"),
        (RetryPolicy, {"logic": "NEVER"}, "'FIXED', 'EXPONENTIAL_BACKOFF' or 'LINEAR_BACKOFF'"),
        (TimeoutPolicy, {"policy": "X"}, "'RETRY', 'TIME_OUT_WF' or 'ALERT_ONLY'"),
        (TimeoutPolicy, {"seconds": -1}, "greater than or equal to 0"),
        (
            ExecutionLimits,
            {"rate_limit_per_frequency": 1},
            "rate_limit_frequency_in_seconds and rate_limit_per_frequency must be configured",
        ),
        (
            PublishBudget,
            BUDGET | {"lakefs_merge_timeout_seconds": 44},
            "lakefs_merge_timeout_seconds must cover observed_merge_p99_seconds plus",
        ),
        (PublishBudget, BUDGET | {"heartbeat_interval_seconds": 0}, "greater than or equal to 1"),
        (PublishBudget, {}, "6 validation errors"),
        (TaskControls, {"other": 1}, "Extra inputs are not permitted"),
        (TaskControls, {"publication": "sometimes"}, "'auto', 'head-parent'"),
        (TaskControls, {"body_seconds": -1}, "greater than or equal to 0"),
        (MetricSpec, {"other": 1}, "Extra inputs are not permitted"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_a_value_that_cannot_be_meant_is_refused(
    model: type[BaseModel], values: dict[str, object], text: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    assert text in str(caught.value)


def test_a_budget_needs_the_sum_of_its_last_four_seconds() -> None:
    assert PublishBudget.model_validate(BUDGET).response_timeout_seconds == 100


def test_each_limit_is_the_authors_or_the_documented_one() -> None:
    controls = TaskControls(publish_budget=PublishBudget.model_validate(BUDGET))
    task = TaskDefinition("n", "data@example.com", lambda: None, BaseModel, BaseModel)
    assert replace(task, controls=controls).times == PublishTimes(45.0, 15.0, 30.0, 10.0)
    assert task.times == PublishTimes(60.0, 60.0, 30.0, inf)


def test_the_response_timeout_is_never_taken_from_the_budget() -> None:
    controls = TaskControls(publish_budget=PublishBudget.model_validate(BUDGET))
    assert controls.response_timeout_seconds == 600


def test_policies_can_be_changed_but_a_budget_cannot() -> None:
    retry = RetryPolicy()
    retry.count = 5
    assert retry.count == 5
    with pytest.raises(ValidationError, match="frozen"):
        PublishBudget.model_validate(BUDGET).heartbeat_interval_seconds = 3


def test_the_policy_and_the_limit_of_the_body_are_left_to_the_settings_by_default() -> None:
    assert (TaskControls().publication, TaskControls().body_seconds) == ("auto", 0)
