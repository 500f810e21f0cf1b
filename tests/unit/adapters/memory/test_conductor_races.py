"""The server's unlocked row update, made deterministic: what a heartbeat under way can undo."""

import pytest
from tests.unit.adapters.memory.conductor_model import OneTask, start_one_task

from perago.adapters.memory.conductor import MemoryTaskQueue
from perago.adapters.memory.conductor_server import OpenWrite, Race
from perago.domain.attempt import (
    AttemptSnapshot,
    AttemptStatus,
    Current,
    Stale,
    WorkflowStatus,
    compare_narrow,
    compare_wide,
)
from perago.ports.conductor import TerminalUpdate


def heartbeat_under_way(task: OneTask) -> tuple[AttemptSnapshot, OpenWrite]:
    """Poll, and read for a heartbeat whose write is still to come."""
    attempt = task.polled()
    return attempt, task.conductor.begin_extend_lease(attempt)


def statuses(task: OneTask) -> list[AttemptStatus]:
    return [row.status for row in task.workflow.tasks]


def test_a_heartbeat_over_a_completion_leaves_a_running_row_in_a_completed_workflow() -> None:
    task = start_one_task(race=Race.AFTER_DECISION)
    attempt, _ = heartbeat_under_way(task)
    task.finish(attempt, output={"n": 1})
    row = task.row(attempt)
    assert task.workflow.status is WorkflowStatus.COMPLETED
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.IN_PROGRESS, {})


def test_a_heartbeat_before_the_decision_loses_the_completion() -> None:
    task = start_one_task(race=Race.BEFORE_DECISION, responseTimeoutSeconds=10)
    attempt, _ = heartbeat_under_way(task)
    task.finish(attempt, output={"n": 1})
    assert task.workflow.status is WorkflowStatus.RUNNING
    assert statuses(task) == [AttemptStatus.IN_PROGRESS]
    task.clock.advance(11)
    again = task.polled("another")
    assert again.retried_task_id == attempt.task_id


def test_a_heartbeat_over_a_time_out_leaves_two_live_attempts() -> None:
    task = start_one_task(race=Race.AFTER_DECISION, responseTimeoutSeconds=10)
    attempt, _ = heartbeat_under_way(task)
    task.clock.advance(11)
    retry = task.polled("another")
    assert statuses(task) == [AttemptStatus.IN_PROGRESS, AttemptStatus.IN_PROGRESS]
    assert not task.row(attempt).snapshot.retried
    for holder in (attempt, retry):
        assert compare_narrow(holder, task.row(holder).snapshot) == Current()
    assert isinstance(compare_wide(attempt, task.workflow), Stale)
    assert compare_wide(retry, task.workflow) == Current()


def test_a_heartbeat_over_a_termination_leaves_a_running_row() -> None:
    task = start_one_task(race=Race.AFTER_DECISION)
    attempt, _ = heartbeat_under_way(task)
    task.conductor.terminate(task.workflow_id, "by hand")
    assert task.workflow.status is WorkflowStatus.TERMINATED
    assert compare_narrow(attempt, task.row(attempt).snapshot) == Current()
    assert isinstance(compare_wide(attempt, task.workflow), Stale)


def test_a_zombie_that_completes_drives_the_workflow_on_with_null() -> None:
    task = start_one_task(race=Race.AFTER_DECISION, tasks=2, responseTimeoutSeconds=10)
    zombie, _ = heartbeat_under_way(task)
    task.clock.advance(11)
    retry = task.polled("another")
    task.conductor.begin_extend_lease(zombie).land()
    task.finish(zombie, output={"n": 1})
    (behind,) = task.poll("a third")
    assert behind.snapshot.reference_name == "second"
    assert behind.input_data == {"n": None}
    task.finish(behind.snapshot)
    ends = [task.workflow.status]
    task.finish(retry, output={"n": 2})
    ends.append(task.workflow.status)
    assert ends == [WorkflowStatus.RUNNING, WorkflowStatus.COMPLETED]


def test_a_completion_and_a_failure_can_both_take_effect() -> None:
    task = start_one_task(race=Race.AFTER_DECISION)
    attempt = task.polled()
    update = TerminalUpdate(attempt, "worker", AttemptStatus.COMPLETED, {"n": 1})
    overtaken = task.conductor.begin_complete(update)
    task.finish(attempt, AttemptStatus.FAILED)
    overtaken.land()
    assert statuses(task) == [AttemptStatus.COMPLETED, AttemptStatus.SCHEDULED]


@pytest.mark.parametrize("race", list(Race))
def test_a_heartbeat_that_nothing_overtakes_is_harmless(race: Race) -> None:
    task = start_one_task(race=race)
    attempt = task.polled()
    before = task.row(attempt)
    task.conductor.begin_extend_lease(attempt).land()
    assert task.row(attempt) == before
    task.finish(attempt, output={"n": 1})
    assert task.workflow.status is WorkflowStatus.COMPLETED
    assert task.row(attempt).output_data == {"n": 1}


@pytest.mark.parametrize(
    ("race", "turns", "status"),
    [
        (Race.NEVER, 2, AttemptStatus.COMPLETED),
        (Race.AFTER_DECISION, 1, AttemptStatus.COMPLETED),
        (Race.AFTER_DECISION, 2, AttemptStatus.IN_PROGRESS),
    ],
    ids=["locked", "not yet read", "read, not yet written"],
)
async def test_a_scheduler_chooses_the_race_by_turns(
    race: Race, turns: int, status: AttemptStatus
) -> None:
    task = start_one_task(race=race)
    queue = MemoryTaskQueue(task.conductor)
    attempt = task.polled()
    beat = queue.extend_lease(attempt, "worker")
    for _ in range(turns):
        try:
            beat.send(None)
        except StopIteration:
            break
    update = TerminalUpdate(attempt, "worker", AttemptStatus.COMPLETED)
    await queue.complete(update, timeout_seconds=1)
    assert task.row(attempt).snapshot.status is status
    beat.close()


def test_a_write_for_a_row_that_is_gone_changes_nothing() -> None:
    task = start_one_task(race=Race.AFTER_DECISION)
    attempt, opened = heartbeat_under_way(task)
    task.conductor.terminate(task.workflow_id, "by hand")
    task.conductor.restart(task.workflow_id)
    opened.land()
    assert attempt.task_id not in [row.task_id for row in task.workflow.tasks]
