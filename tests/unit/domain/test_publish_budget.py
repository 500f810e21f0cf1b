"""The publish budget: the documents' formula, and what holds where there is no budget."""

import pytest

from perago.domain.attempt import (
    PublishBudget,
    completion_timeout_seconds,
    heartbeat_seconds,
    merge_timeout_seconds,
    shutdown_grace_seconds,
)

BUDGET = PublishBudget(
    observed_merge_p99_seconds=30,
    safety_margin_seconds=15,
    lakefs_merge_timeout_seconds=45,
    conductor_completion_timeout_seconds=15,
    worker_shutdown_grace_seconds=31,
    heartbeat_interval_seconds=10,
)


def test_the_response_timeout_covers_merge_completion_shutdown_and_a_heartbeat() -> None:
    assert BUDGET.response_timeout_seconds == 45 + 15 + 31 + 10


def test_each_limit_is_the_authors_or_the_documented_one() -> None:
    limits = (merge_timeout_seconds, completion_timeout_seconds, shutdown_grace_seconds)
    assert [limit(BUDGET) for limit in limits] == [45.0, 15.0, 31.0]
    assert [limit(None) for limit in limits] == [60.0, 60.0, 30.0]


@pytest.mark.parametrize(
    ("response_timeout", "budget", "pause"),
    [
        (600, None, 200.0),
        (600, BUDGET, 10.0),
        (30, BUDGET, 10.0),
        (27, BUDGET, 9.0),
        (3, None, 1.0),
        (1, BUDGET, 1 / 3),
    ],
    ids=["a third", "what the budget asks", "both are equal", "a third is less",
         "short", "very short"],
)  # fmt: skip
def test_the_pause_between_heartbeats(
    response_timeout: int, budget: PublishBudget | None, pause: float
) -> None:
    assert heartbeat_seconds(response_timeout, budget) == pytest.approx(pause)


@pytest.mark.parametrize("budget", [None, BUDGET], ids=["no budget", "budget"])
def test_two_heartbeats_can_be_lost_before_the_lease_is(budget: PublishBudget | None) -> None:
    for response_timeout in (*range(1, 400), 3600, 10**6):
        pause = heartbeat_seconds(response_timeout, budget)
        assert 0 < pause * 3 <= response_timeout * 1.000001
