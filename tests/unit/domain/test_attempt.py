"""What the states of Conductor mean, and what all retries of a task have in common.

Both attempt fences: each fact that stops an attempt, and what does not.

The times of a publication: how often an attempt beats, with a budget and without one.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any, TypeAlias

import pytest

from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    Current,
    FenceWidth,
    PublishTimes,
    Stale,
    WorkflowSnapshot,
    WorkflowStatus,
    compare_narrow,
    compare_wide,
)

ATTEMPT = AttemptSnapshot("wf", "t1", "mix__2", "mix_stems", AttemptStatus.IN_PROGRESS, iteration=2)


@pytest.mark.parametrize(
    ("status", "terminal"),
    [
        ("SCHEDULED", False),
        ("IN_PROGRESS", False),
        ("COMPLETED", True),
        ("COMPLETED_WITH_ERRORS", True),
        ("FAILED", True),
        ("FAILED_WITH_TERMINAL_ERROR", True),
        ("CANCELED", True),
        ("TIMED_OUT", True),
        ("SKIPPED", True),
    ],
)
def test_the_states_of_an_attempt(status: str, terminal: bool) -> None:  # noqa: FBT001 - a column
    assert AttemptStatus(status).is_terminal is terminal


@pytest.mark.parametrize(
    ("status", "terminal"),
    [
        ("RUNNING", False),
        ("PAUSED", False),
        ("COMPLETED", True),
        ("FAILED", True),
        ("TIMED_OUT", True),
        ("TERMINATED", True),
    ],
)
def test_the_states_of_a_workflow(status: str, terminal: bool) -> None:  # noqa: FBT001 - a column
    assert WorkflowStatus(status).is_terminal is terminal


def test_no_state_of_the_server_is_missing_from_the_tables() -> None:
    assert len(AttemptStatus) == 9
    assert len(WorkflowStatus) == 6


def test_a_row_that_says_nothing_more_is_a_first_attempt_without_a_worker() -> None:
    plain = AttemptSnapshot("wf", "t1", "mix", "mix_stems", AttemptStatus.SCHEDULED)
    numbers = (plain.retry_count, plain.seq, plain.iteration, plain.poll_count)
    assert numbers == (0, 0, 0, 0)
    assert (plain.start_time, plain.scheduled_time, plain.retried) == (0, 0, False)
    assert (plain.worker_id, plain.retried_task_id) == (None, None)


def test_the_logical_task_key_is_workflow_reference_iteration() -> None:
    assert ATTEMPT.logical_task_key == "wf/mix__2/2"


def test_the_logical_task_key_is_the_same_for_every_retry() -> None:
    retry = replace(ATTEMPT, task_id="t2", retry_count=1, seq=7, retried_task_id="t1", poll_count=3)
    assert retry.logical_task_key == ATTEMPT.logical_task_key


def test_a_record_without_data_shares_one_that_cannot_be_filled() -> None:
    record = AttemptRecord(ATTEMPT)
    assert record.input_data is record.output_data
    assert record.input_data == {}
    assert (record.reason, record.response_timeout_seconds, record.queue_wait_ms) == (None, 0, 0)
    assert not hasattr(record.input_data, "__setitem__")


POLLED = AttemptSnapshot(
    workflow_id="wf",
    task_id="t1",
    reference_name="mix",
    task_type="mix_stems",
    status=AttemptStatus.IN_PROGRESS,
    retry_count=1,
    seq=5,
    poll_count=1,
    start_time=120,
    scheduled_time=100,
    worker_id="w1",
    retried_task_id="t0",
)
BEFORE = replace(POLLED, task_id="t0", retry_count=0, seq=4, retried=True)
AFTER = replace(POLLED, task_id="t2", retry_count=2, seq=6)
NEIGHBOUR = replace(POLLED, task_id="n1", reference_name="cut", seq=9)


def workflow(
    *tasks: AttemptSnapshot, status: WorkflowStatus = WorkflowStatus.RUNNING
) -> WorkflowSnapshot:
    return WorkflowSnapshot("wf", status, tasks)


Row: TypeAlias = tuple[str, dict[str, Any], Current | Stale]

NARROW: list[Row] = [
    ("the same", {}, Current()),
    ("another workflow", {"workflow_id": "w"}, Stale("workflow_id", "wf", "w")),
    ("another task", {"task_id": "t9"}, Stale("task_id", "t1", "t9")),
    ("another retry", {"retry_count": 2}, Stale("retry_count", "1", "2")),
    *(
        (f"now {status}", {"status": status}, Stale("status", "IN_PROGRESS", status))
        for status in AttemptStatus
        if status is not AttemptStatus.IN_PROGRESS
    ),
]  # fmt: skip
WIDE: list[Row] = [
    ("polled again", {"poll_count": 2}, Stale("poll_count", "1", "2")),
    ("started again", {"start_time": 121}, Stale("start_time", "120", "121")),
    ("scheduled again", {"scheduled_time": 101}, Stale("scheduled_time", "100", "101")),
    ("another worker", {"worker_id": "w2"}, Stale("worker_id", "w1", "w2")),
    ("no worker", {"worker_id": None}, Stale("worker_id", "w1", "missing")),
    ("retried", {"retried": True}, Stale("retried", "False", "True")),
]
UNWATCHED: list[Row] = [
    ("sequence number", {"seq": 6}, Current()),
    ("iteration", {"iteration": 1}, Current()),
    ("task type", {"task_type": "other"}, Current()),
    ("retried task", {"retried_task_id": None}, Current()),
]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [row[1:] for row in [*NARROW, *UNWATCHED]],
    ids=[row[0] for row in [*NARROW, *UNWATCHED]],
)
def test_the_narrow_fence(changes: dict[str, Any], verdict: Current | Stale) -> None:
    fresh = replace(POLLED, **changes)
    assert compare_narrow(POLLED, fresh) == verdict


@pytest.mark.parametrize("changes", [row[1] for row in WIDE], ids=[row[0] for row in WIDE])
def test_the_holes_of_the_narrow_fence(changes: dict[str, Any]) -> None:
    """Seen on a real server: rerun, redelivery and resurrected rows pass the four facts."""
    fresh = replace(POLLED, **changes)
    assert compare_narrow(POLLED, fresh) == Current()


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [row[1:] for row in [*NARROW, *WIDE, *UNWATCHED]],
    ids=[row[0] for row in [*NARROW, *WIDE, *UNWATCHED]],
)
def test_the_wide_fence(changes: dict[str, Any], verdict: Current | Stale) -> None:
    fresh = replace(POLLED, **changes)
    assert compare_wide(POLLED, workflow(BEFORE, fresh, NEIGHBOUR)) == verdict


@pytest.mark.parametrize(
    ("fresh", "verdict"),
    [
        (workflow(POLLED), Current()),
        (workflow(POLLED, BEFORE), Current()),
        (workflow(BEFORE, POLLED, NEIGHBOUR), Current()),
        (workflow(POLLED, AFTER), Stale("task_id", "t1", "t2")),
        (workflow(AFTER, POLLED), Stale("task_id", "t1", "t2")),
        (workflow(NEIGHBOUR), Stale("task_id", "t1", "missing")),
        (workflow(), Stale("task_id", "t1", "missing")),
        (None, Stale("workflow_id", "wf", "missing")),
    ],
    ids=["alone", "after its predecessor", "beside a neighbour", "a live retry after it",
         "a live retry listed before it", "only a neighbour", "no rows", "no workflow"],
)  # fmt: skip
def test_of_the_rows_with_my_name_the_newest_must_be_mine(
    fresh: WorkflowSnapshot | None, verdict: Current | Stale
) -> None:
    assert compare_wide(POLLED, fresh) == verdict


@pytest.mark.parametrize("status", WorkflowStatus, ids=str)
def test_the_workflow_must_be_running_or_paused(status: WorkflowStatus) -> None:
    alive = status in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}
    expected = Current() if alive else Stale("workflow_status", "RUNNING", status)
    assert compare_wide(POLLED, workflow(POLLED, status=status)) == expected


def test_a_row_that_is_gone_is_stale() -> None:
    assert compare_narrow(POLLED, None) == Stale("task_id", "t1", "missing")


def rows() -> Iterator[AttemptSnapshot]:
    """Every combination of what a fresh read may say."""
    for facts in product(
        ("wf", "other"), ("t1", "t2"), (AttemptStatus.IN_PROGRESS, AttemptStatus.SCHEDULED),
        (0, 1, 2), (0, 1, 2), ("w1", None), (False, True),
    ):  # fmt: skip
        workflow_id, task_id, status, retry_count, poll_count, worker_id, retried = facts
        yield replace(
            POLLED,
            workflow_id=workflow_id,
            task_id=task_id,
            status=status,
            retry_count=retry_count,
            poll_count=poll_count,
            worker_id=worker_id,
            retried=retried,
        )


def test_what_passes_the_wide_fence_passes_the_narrow_one() -> None:
    passed = [row for row in rows() if compare_wide(POLLED, workflow(row)) == Current()]
    assert passed == [POLLED]
    assert compare_narrow(POLLED, POLLED) == Current()


def test_a_stale_verdict_names_a_fact_that_really_differs() -> None:
    names = {one.name for one in fields(AttemptSnapshot)}
    for row in rows():
        for verdict in (compare_narrow(POLLED, row), compare_wide(POLLED, workflow(row))):
            if isinstance(verdict, Stale):
                assert verdict.expected != verdict.found
                assert verdict.field in names


def test_the_widths_are_spelled_as_the_setting_is() -> None:
    assert [width.value for width in FenceWidth] == ["narrow", "wide"]


BUDGET, NO_BUDGET = PublishTimes(45.0, 15.0, 31.0, 10.0), PublishTimes()


@pytest.mark.parametrize(
    ("response_timeout", "budget", "pause"),
    [
        (600, NO_BUDGET, 200.0),
        (600, BUDGET, 10.0),
        (30, BUDGET, 10.0),
        (27, BUDGET, 9.0),
        (3, NO_BUDGET, 1.0),
        (1, BUDGET, 1 / 3),
    ],
    ids=["a third", "what the budget asks", "both are equal", "a third is less",
         "short", "very short"],
)  # fmt: skip
def test_the_pause_between_heartbeats(
    response_timeout: int, budget: PublishTimes, pause: float
) -> None:
    assert budget.heartbeat_seconds(response_timeout) == pytest.approx(pause)


@pytest.mark.parametrize("budget", [NO_BUDGET, BUDGET], ids=["no budget", "budget"])
def test_two_heartbeats_can_be_lost_before_the_lease_is(budget: PublishTimes) -> None:
    for response_timeout in (*range(1, 400), 3600, 10**6):
        pause = budget.heartbeat_seconds(response_timeout)
        assert 0 < pause * 3 <= response_timeout * 1.000001
