"""Time-outs on the virtual clock, which are due when, and the pauses before retries."""

import pytest
from tests.unit.adapters.memory.conductor_model import OneTask, new_conductor, start_one_task

from perago.adapters.memory.conductor_rows import TaskSettings, retry_delay_ms
from perago.adapters.memory.workflow_decider import next_due_ms
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import HandBack


def decided(task: OneTask, seconds: float) -> list[AttemptStatus]:
    """Let time pass and decide; the statuses of the rows."""
    task.clock.advance(seconds)
    task.conductor.decide(task.workflow_id)
    return [row.status for row in task.workflow.tasks]


def test_the_response_is_due_after_the_whole_time() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    task.polled()
    assert decided(task, 9.999) == [AttemptStatus.IN_PROGRESS]
    assert decided(task, 0.001) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]


def test_a_task_that_waits_to_be_polled_has_no_response_time_out() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    assert decided(task, 3600) == [AttemptStatus.SCHEDULED]


def test_heartbeats_move_the_response_time_out_and_not_the_execution_time_out() -> None:
    task = start_one_task(responseTimeoutSeconds=10, timeoutSeconds=25, timeoutPolicy="RETRY")
    attempt = task.polled()
    for _ in range(3):
        assert decided(task, 8) == [AttemptStatus.IN_PROGRESS]
        task.conductor.begin_extend_lease(attempt)
    assert decided(task, 1) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]
    reason = task.row(attempt).reason or ""
    assert reason.startswith("Task timed out after 25 seconds. Timeout configured as 25 seconds.")


@pytest.mark.parametrize(
    ("policy", "workflow", "rows"),
    [
        ("RETRY", WorkflowStatus.RUNNING, [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]),
        ("TIME_OUT_WF", WorkflowStatus.TIMED_OUT, [AttemptStatus.TIMED_OUT]),
        ("ALERT_ONLY", WorkflowStatus.RUNNING, [AttemptStatus.IN_PROGRESS]),
    ],
)
def test_the_execution_time_out_obeys_its_policy(
    policy: str, workflow: WorkflowStatus, rows: list[AttemptStatus]
) -> None:
    task = start_one_task(responseTimeoutSeconds=20, timeoutSeconds=20, timeoutPolicy=policy)
    attempt = task.polled()
    task.clock.advance(15)
    task.conductor.begin_extend_lease(attempt)
    assert decided(task, 5) == rows
    assert task.workflow.status is workflow


def test_of_two_time_outs_that_are_due_the_execution_time_out_is_the_reason() -> None:
    task = start_one_task(responseTimeoutSeconds=20, timeoutSeconds=20, timeoutPolicy="RETRY")
    attempt = task.polled()
    decided(task, 20)
    assert str(task.row(attempt).reason).startswith("Task timed out after 20 seconds.")


def test_the_execution_time_out_of_a_row_that_was_handed_back_goes_on() -> None:
    task = start_one_task(responseTimeoutSeconds=5, timeoutSeconds=25, timeoutPolicy="RETRY")
    attempt, started_ms = task.polled(), task.clock.epoch_ms
    task.conductor.hand_back(HandBack(attempt, "worker"))
    assert next_due_ms(task.conductor.state) == started_ms + 25_000
    assert decided(task, 24) == [AttemptStatus.SCHEDULED]
    assert decided(task, 1) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]


@pytest.mark.parametrize("policy", ["RETRY", "TIME_OUT_WF", "ALERT_ONLY"])
def test_the_response_time_out_is_retried_whatever_the_policy(policy: str) -> None:
    task = start_one_task(responseTimeoutSeconds=10, timeoutPolicy=policy)
    task.polled()
    assert decided(task, 10) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]


def test_the_last_response_time_out_ends_the_workflow() -> None:
    task = start_one_task(responseTimeoutSeconds=10, retryCount=0)
    task.polled()
    assert decided(task, 10) == [AttemptStatus.TIMED_OUT]
    assert task.workflow.status is WorkflowStatus.TIMED_OUT


def test_the_poll_time_out_is_for_tasks_that_are_not_polled() -> None:
    task = start_one_task(pollTimeoutSeconds=10, timeoutPolicy="RETRY")
    assert decided(task, 10) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]
    task.polled()
    assert decided(task, 10)[1] is AttemptStatus.IN_PROGRESS


def test_the_workflow_time_out_cancels_its_rows() -> None:
    task, spec = new_conductor(), {"name": "any", "taskReferenceName": "only"}
    task.start("short", spec, timeoutSeconds=5, timeoutPolicy="TIME_OUT_WF")
    assert decided(task, 5) == [AttemptStatus.CANCELED]
    assert task.workflow.status is WorkflowStatus.TIMED_OUT


def test_a_paused_workflow_times_nothing_out() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    task.polled()
    task.conductor.pause(task.workflow_id)
    assert decided(task, 60) == [AttemptStatus.IN_PROGRESS]
    task.conductor.resume(task.workflow_id)
    assert decided(task, 0) == [AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED]


def test_a_poll_sweeps_when_the_clock_has_moved() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    first = task.polled()
    task.clock.advance(10)
    assert task.polled("another").retried_task_id == first.task_id


def test_the_delay_of_a_retry_grows_as_defined() -> None:
    task = start_one_task(retryLogic="EXPONENTIAL_BACKOFF", retryDelaySeconds=2)
    waits: list[float] = []
    for _ in range(3):
        task.finish(task.polled(), AttemptStatus.FAILED)
        due = min(task.conductor.state.queued_times_ms())
        waits.append((due - task.conductor.state.now_ms) / 1000)
        assert task.poll() == ()
        task.clock.advance(waits[-1])
    assert waits == [2, 4, 8]


@pytest.mark.parametrize(
    ("logic", "more", "seconds"),
    [
        ("FIXED", {}, [3, 3, 3, 3]),
        ("LINEAR_BACKOFF", {}, [3, 6, 9, 12]),
        ("LINEAR_BACKOFF", {"backoffScaleFactor": 2}, [6, 12, 18, 24]),
        ("LINEAR_BACKOFF", {"maxRetryDelaySeconds": 7}, [3, 6, 7, 7]),
        ("EXPONENTIAL_BACKOFF", {}, [3, 6, 12, 24]),
        ("EXPONENTIAL_BACKOFF", {"backoffScaleFactor": 5}, [3, 6, 12, 24]),
        ("EXPONENTIAL_BACKOFF", {"maxRetryDelaySeconds": 10}, [3, 6, 10, 10]),
        ("FIXED", {"retryDelaySeconds": 0}, [0, 0, 0, 0]),
    ],
    ids=str,
)
def test_the_pause_before_each_retry(
    logic: str, more: dict[str, object], seconds: list[int]
) -> None:
    definition = {"name": "any", "retryLogic": logic, "retryDelaySeconds": 3, **more}
    settings = TaskSettings.of(definition)
    assert [retry_delay_ms(settings, n, 0.5) for n in range(4)] == [s * 1000 for s in seconds]


@pytest.mark.parametrize(("fraction", "extra_ms"), [(0.0, 0), (0.5, 125), (0.999, 249)])
def test_the_jitter_comes_on_top_of_the_cap(fraction: float, extra_ms: int) -> None:
    definition: dict[str, object] = {
        "name": "any",
        "retryDelaySeconds": 60,
        "maxRetryDelaySeconds": 10,
        "backoffJitterMs": 250,
    }
    assert retry_delay_ms(TaskSettings.of(definition), 0, fraction) == 10_000 + extra_ms
