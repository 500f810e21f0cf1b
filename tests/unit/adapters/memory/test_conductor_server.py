"""The in-memory Conductor where no law looks: lists, limits, snapshots, refusals, seeds."""

from collections.abc import Mapping
from typing import cast

import pytest
from tests.unit.adapters.memory.conductor_model import (
    TASK,
    WORKFLOW,
    OneTask,
    new_conductor,
    start_one_task,
)

from perago.adapters.memory.conductor import MemoryTaskQueue
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.workflow_step_kinds import ENDS
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import PollRequest, TaskQueue, TerminalUpdate
from perago.ports.errors import (
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
)
from perago.testing.fault_injector import FaultInjector, ProcessDied, faulty_port
from perago.testing.faults import arrive_late, crash, lose_answer

MEGABYTE = 1024 * 1024


def test_a_requeue_hands_a_healthy_attempt_out_again() -> None:
    task = start_one_task()
    first = task.polled()
    task.conductor.requeue(TASK)
    assert task.row(first).snapshot == first
    task.clock.advance(1)
    again = task.polled("another")
    assert (again.poll_count, again.start_time) == (2, first.start_time)


def test_a_requeue_does_not_reach_a_rerun_row() -> None:
    task = start_one_task()
    task.conductor.terminate(task.workflow_id, "by hand")
    task.conductor.rerun(task.workflow_id, task.workflow.tasks[0].task_id, None)
    task.polled()
    task.conductor.requeue(TASK)
    assert task.poll("another") == ()


def test_a_retry_by_hand_writes_its_input_into_the_row_before() -> None:
    task = start_one_task(retryCount=0)
    failed = task.polled()
    task.finish(failed, AttemptStatus.FAILED, {"n": 7})
    task.conductor.retry(task.workflow_id)
    (again,) = task.poll()
    assert again.input_data == {"n": 7}
    assert task.row(failed).input_data == {"n": 7}


def test_a_failed_attempt_that_a_rerun_handed_out_has_no_deadline() -> None:
    task = start_one_task(tasks=2, retryCount=1, responseTimeoutSeconds=10)
    task.finish(task.polled(), AttemptStatus.FAILED)
    task.finish(task.polled())
    task.conductor.terminate(task.workflow_id, "by hand")
    task.conductor.rerun(task.workflow_id, task.workflow.tasks[2].task_id, None)
    assert len(task.poll(count=2)) == 2
    task.clock.advance(11)
    task.conductor.decide(task.workflow_id)
    first, _, second = [row.status for row in task.workflow.tasks][:3]
    assert (first, second) == (AttemptStatus.IN_PROGRESS, AttemptStatus.TIMED_OUT)


def test_a_running_workflow_keeps_the_definition_it_started_with() -> None:
    task = start_one_task(retryCount=1)
    task.conductor.put_task_definition({"name": TASK, "retryCount": 0})
    task.finish(task.polled(), AttemptStatus.FAILED)
    assert task.workflow.status is WorkflowStatus.RUNNING


def test_a_task_that_comes_later_has_the_definition_that_the_workflow_started_with() -> None:
    task = start_one_task(tasks=2, retryCount=1)
    task.conductor.put_task_definition({"name": TASK, "retryCount": 0})
    task.finish(task.polled())
    task.finish(task.polled(), AttemptStatus.FAILED)
    assert task.workflow.status is WorkflowStatus.RUNNING


def test_a_task_that_only_a_fork_names_has_the_definition_of_the_moment_it_comes() -> None:
    """As `ForkJoinDynamicTaskMapper` does: the workflow's own definition does not know its name."""
    task = new_conductor()
    inputs: list[dict[str, object]] = [{}]
    fork = {"forkTaskName": TASK, "forkTaskInputs": inputs}
    task.start(
        WORKFLOW,
        {"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}
        | {"inputParameters": {"duration": "1 second"}},
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN_DYNAMIC"}
        | {"inputParameters": fork},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN"},
    )
    task.conductor.put_task_definition({"name": TASK, "retryCount": 1, "retryDelaySeconds": 0})
    task.clock.advance(1)
    attempt = task.polled()
    task.conductor.put_task_definition({"name": TASK, "retryCount": 0})
    task.finish(attempt, AttemptStatus.FAILED)
    assert task.polled().retry_count == 1
    assert task.workflow.status is WorkflowStatus.RUNNING


def test_a_type_without_a_definition_runs_with_the_defaults() -> None:
    task = new_conductor()
    task.start(WORKFLOW, {"name": TASK, "taskReferenceName": "only"})
    task.finish(task.polled(), AttemptStatus.FAILED)
    assert task.poll() == ()
    task.clock.advance(60)
    assert task.polled().retry_count == 1


def test_the_retries_of_the_workflow_win_over_the_definition() -> None:
    task = new_conductor()
    task.conductor.put_task_definition({"name": TASK, "retryCount": 5, "retryDelaySeconds": 0})
    task.start(WORKFLOW, {"name": TASK, "taskReferenceName": "only", "retryCount": 0})
    task.finish(task.polled(), AttemptStatus.FAILED)
    assert task.workflow.status is WorkflowStatus.FAILED


@pytest.mark.parametrize(
    ("size", "status", "shown"),
    [
        (2 * MEGABYTE, AttemptStatus.COMPLETED, True),
        (4 * MEGABYTE, AttemptStatus.COMPLETED, False),
        (11 * MEGABYTE, AttemptStatus.FAILED_WITH_TERMINAL_ERROR, False),
    ],
    ids=["shown", "offloaded", "refused"],
)
def test_large_outputs(size: int, status: AttemptStatus, *, shown: bool) -> None:
    task = start_one_task()
    attempt = task.polled()
    task.finish(attempt, output={"text": "x" * size})
    row = task.row(attempt)
    assert row.snapshot.status is status
    assert bool(row.output_data) is shown


@pytest.mark.parametrize("output", [{"n": float("nan")}, {"n": object()}], ids=["nan", "object"])
def test_an_output_that_is_no_json_is_refused(output: Mapping[str, object]) -> None:
    task = start_one_task()
    attempt = task.polled()
    with pytest.raises(RequestRefusedError, match="JSON"):
        task.finish(attempt, output=output)
    assert task.row(attempt).snapshot == attempt


def test_a_worker_cannot_send_timed_out() -> None:
    task = start_one_task()
    with pytest.raises(ValueError, match="does not end as TIMED_OUT"):
        task.finish(task.polled(), AttemptStatus.TIMED_OUT)


def test_what_a_port_shows_cannot_reach_the_server() -> None:
    task = start_one_task()
    attempt = task.polled()
    given: dict[str, object] = {"list": [1]}
    task.finish(attempt, output=given)
    given["list"] = "changed"
    shown = cast("list[int]", task.row(attempt).output_data["list"])
    shown.append(2)
    assert task.row(attempt).output_data == {"list": [1]}


def test_canceled_by_a_worker_terminates_the_workflow() -> None:
    task = start_one_task()
    task.finish(task.polled(), AttemptStatus.CANCELED)
    assert task.workflow.status is WorkflowStatus.TERMINATED
    task.conductor.retry(task.workflow_id)
    assert task.polled().retry_count == 1


def test_a_cancelled_loop_alone_is_nothing_to_retry() -> None:
    task = start_one_task()
    body = {"name": TASK, "taskReferenceName": "body"}
    loop = {"name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopOver": [body]}
    task.conductor.terminate(task.workflow_id, "only its definition is needed")
    task.start("looping", loop)
    task.conductor.pause(task.workflow_id)
    task.finish(task.polled())
    task.conductor.terminate(task.workflow_id, "between two iterations")
    ended = [AttemptStatus.CANCELED, AttemptStatus.COMPLETED]
    assert [row.status for row in task.workflow.tasks] == ended
    with pytest.raises(RequestRefusedError, match="no retryable tasks"):
        task.conductor.retry(task.workflow_id)
    assert [row.status for row in task.workflow.tasks] == ended


@pytest.mark.parametrize(
    ("sent", "end"),
    [
        (AttemptStatus.COMPLETED, WorkflowStatus.COMPLETED),
        (AttemptStatus.FAILED_WITH_TERMINAL_ERROR, WorkflowStatus.FAILED),
        (AttemptStatus.CANCELED, WorkflowStatus.TERMINATED),
    ],
)
def test_the_end_of_a_child_reaches_its_row_while_the_parent_is_paused(
    sent: AttemptStatus, end: WorkflowStatus
) -> None:
    task = start_one_task()
    task.conductor.terminate(task.workflow_id, "only its definition is needed")
    part = {
        "name": "part",
        "taskReferenceName": "part",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": WORKFLOW, "version": 1},
    }
    task.start("parent", part)
    task.conductor.pause(task.workflow_id)
    task.finish(task.polled(), sent)
    assert task.workflow.status is WorkflowStatus.PAUSED
    assert task.workflow.tasks[0].status is ENDS[end]
    task.conductor.resume(task.workflow_id)
    assert task.workflow.status is end


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"name": "w", "tasks": []}, "at least one task"),
        ({"name": "", "tasks": [{"name": "t", "taskReferenceName": "a"}]}, "needs a name"),
        ({"name": "w", "tasks": [{"name": "t"}]}, "taskReferenceName"),
        ({"name": "w", "tasks": [{"name": "t", "taskReferenceName": "a"}] * 2}, "unique"),
        (
            {"name": "w", "tasks": [{"name": "t", "taskReferenceName": "a", "type": "INLINE"}]},
            "found INLINE",
        ),
        (
            {"name": "w", "tasks": [{"name": "s", "taskReferenceName": "s", "type": "SWITCH"}]},
            "runs no scripts",
        ),
        (
            {
                "name": "w",
                "tasks": [
                    {"name": "t", "taskReferenceName": "a", "inputParameters": {"x": "${b.output}"}}
                ],
            },
            "'b'",
        ),
    ],
    ids=["empty", "nameless", "no reference", "twice", "kind", "script", "unknown reference"],
)
def test_workflows_that_could_not_run_are_refused(
    definition: Mapping[str, object], said: str
) -> None:
    with pytest.raises(RequestRefusedError, match=said):
        MemoryConductor().put_workflow_definition(definition)


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", ""), ("retryCount", -1), ("retryLogic", "NEVER"), ("retryDelaySeconds", "5")],
)
def test_a_refused_task_definition_names_its_field(field: str, value: object) -> None:
    with pytest.raises(RequestRefusedError, match=f"^task definition .*: {field} "):
        MemoryConductor().put_task_definition({"name": TASK, field: value})


def test_unknown_ids_are_missing() -> None:
    conductor = MemoryConductor()
    for verb in (conductor.pause, conductor.resume, conductor.retry, conductor.restart):
        with pytest.raises(MissingError):
            verb("no-such-workflow")


def test_the_same_seed_makes_the_same_ids() -> None:
    def ids() -> list[str]:
        task = start_one_task()
        return [task.workflow_id, task.polled().task_id]

    assert ids() == ids()


def struck(task: OneTask, injector: FaultInjector) -> TaskQueue:
    return faulty_port(MemoryTaskQueue(task.conductor), "queue", injector)


async def test_a_lost_poll_leaves_the_attempt_without_a_worker() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    queue = struck(task, FaultInjector([lose_answer("queue.poll")]))
    with pytest.raises(OutcomeUnknownError):
        await queue.poll(PollRequest(TASK, "worker"))
    assert task.workflow.tasks[0].status is AttemptStatus.IN_PROGRESS
    assert await queue.poll(PollRequest(TASK, "worker")) == ()
    task.clock.advance(10)
    assert len(await queue.poll(PollRequest(TASK, "worker"))) == 1


async def test_a_completion_whose_answer_is_lost_took_effect() -> None:
    task = start_one_task()
    queue = struck(task, FaultInjector([lose_answer("queue.complete")]))
    attempt = task.polled()
    update = TerminalUpdate(attempt, "worker", AttemptStatus.COMPLETED, {"n": 1})
    with pytest.raises(OutcomeUnknownError):
        await queue.complete(update, timeout_seconds=1)
    assert task.row(attempt).output_data == {"n": 1}


async def test_a_completion_on_the_wire_lands_when_it_is_released() -> None:
    task = start_one_task()
    injector = FaultInjector([arrive_late("queue.complete")])
    attempt = task.polled()
    update = TerminalUpdate(attempt, "worker", AttemptStatus.COMPLETED, {"n": 1})
    with pytest.raises(OutcomeUnknownError):
        await struck(task, injector).complete(update, timeout_seconds=1)
    assert task.row(attempt).snapshot == attempt
    await injector.arrive_late()
    assert task.row(attempt).output_data == {"n": 1}


async def test_a_dead_worker_sends_no_heartbeat() -> None:
    task = start_one_task(responseTimeoutSeconds=10)
    queue = struck(task, FaultInjector([crash(after="queue.poll")]))
    with pytest.raises(ProcessDied):
        await queue.poll(PollRequest(TASK, "worker"))
    (row,) = task.workflow.tasks
    with pytest.raises(ProcessDied):
        await queue.extend_lease(row, "worker")
    task.clock.advance(10)
    assert task.polled("another").retried_task_id == row.task_id
