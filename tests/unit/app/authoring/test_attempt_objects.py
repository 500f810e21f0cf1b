"""Attempts given as plain objects: names, the narrow fence, and what is missing."""

from types import SimpleNamespace

import pytest

from perago.app.authoring.current_attempt import (
    TaskExecutionContext,
    assert_current_attempt_snapshot,
    staging_branch_name,
)
from perago.domain.errors import StaleAttemptError

ATTEMPT = {
    "workflow_instance_id": "w f",
    "reference_task_name": "r/é",
    "seq": 3,
    "iteration": 0,
    "task_id": "",
    "retry_count": 1,
    "status": "IN_PROGRESS",
}


def test_a_staging_branch_is_named_after_the_execution() -> None:
    attempt = SimpleNamespace(**ATTEMPT, execution_id="--")
    assert staging_branch_name(attempt) == (
        "perago-staging-w-f-r-seq-3-iteration-0-task-id-unknown-retry-1-exec-unknown"
    )


def test_an_attempt_that_is_unchanged_is_current() -> None:
    assert_current_attempt_snapshot(SimpleNamespace(**ATTEMPT), SimpleNamespace(**ATTEMPT))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"status": "TIMED_OUT"}, "status"),
        ({"status": "no such status"}, "status"),
        ({"workflow_instance_id": "other"}, "workflow_id"),
        ({"task_id": "other"}, "task_id"),
        ({"retry_count": 2}, "retry_count"),
    ],
    ids=str,
)
def test_an_attempt_that_changed_is_stale_and_says_in_what(
    changed: dict[str, object], field: str
) -> None:
    with pytest.raises(StaleAttemptError) as caught:
        assert_current_attempt_snapshot(
            SimpleNamespace(**ATTEMPT), SimpleNamespace(**(ATTEMPT | changed))
        )
    assert caught.value.stale is not None
    assert caught.value.stale.field == field


@pytest.mark.parametrize("name", ["status", "workflow_instance_id", "task_id", "retry_count"])
def test_a_missing_attribute_is_named(name: str) -> None:
    fresh = SimpleNamespace(**{key: each for key, each in ATTEMPT.items() if key != name})
    with pytest.raises(AttributeError, match=f"task is missing required attribute {name}"):
        assert_current_attempt_snapshot(SimpleNamespace(**ATTEMPT), fresh)


def test_a_context_is_its_attempt_with_an_execution() -> None:
    context = TaskExecutionContext(SimpleNamespace(**ATTEMPT), "e1")
    assert (context.seq, context.execution_id) == (3, "e1")
    assert staging_branch_name(context).endswith("-exec-e1")
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = context.nothing_like_it
