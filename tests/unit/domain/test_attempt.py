"""What the states of Conductor mean, and what all retries of a task have in common."""

from dataclasses import replace

import pytest

from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowStatus,
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
