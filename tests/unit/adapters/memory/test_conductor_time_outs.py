"""Time-outs on the virtual clock: which are due when, and what follows."""

import pytest
from tests.unit.adapters.memory.conductor_model import OneTask, start_one_task

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.system import VirtualClock
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import NO_DOMAINS


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
    clock = VirtualClock()
    conductor = MemoryConductor(clock)
    spec = {"name": "any", "taskReferenceName": "only"}
    conductor.put_workflow_definition(
        {"name": "short", "tasks": [spec], "timeoutSeconds": 5, "timeoutPolicy": "TIME_OUT_WF"}
    )
    task = OneTask(clock, conductor, conductor.start("short", {}, task_to_domain=NO_DOMAINS))
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


def test_sweeping_can_be_left_to_the_test() -> None:
    task = start_one_task(responseTimeoutSeconds=10, sweeps=False)
    task.polled()
    task.clock.advance(3600)
    assert task.poll("another") == ()
    task.conductor.decide(task.workflow_id)
    assert len(task.poll("another")) == 1


def test_the_delay_of_a_retry_grows_as_defined() -> None:
    task = start_one_task(retryLogic="EXPONENTIAL_BACKOFF", retryDelaySeconds=2)
    waits: list[float] = []
    for _ in range(3):
        task.finish(task.polled(), AttemptStatus.FAILED)
        due = task.conductor.state.next_due_ms()
        assert due is not None
        waits.append((due - task.conductor.state.now_ms) / 1000)
        assert task.poll() == ()
        task.clock.advance(waits[-1])
    assert waits == [2, 4, 8]
