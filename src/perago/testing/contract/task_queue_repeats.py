"""Laws of perago.ports.task_queue: what follows a failure, and what an operator repeats."""

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.testing.contract.conductor_scene import (
    define_task,
    define_workflow,
    fail,
    finish,
    poll_now,
    poll_one,
    row_of,
    simple,
    snapshot_of,
    start_one_task,
    workflow_of,
)
from perago.testing.contract.conductor_world import ConductorWorld


async def test_Q8_failed_is_retried(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world)
    first = await poll_one(conductor_world, task_type, workflow_id)
    await fail(conductor_world, first, "disk full")
    before = await row_of(conductor_world, first)
    assert (before.snapshot.status, before.snapshot.retried) == (AttemptStatus.FAILED, True)
    assert before.reason == "disk full"
    second = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    assert second.task_id != first.snapshot.task_id
    assert second.retried_task_id == first.snapshot.task_id
    assert (second.retry_count, second.poll_count) == (1, 1)
    assert second.seq == first.snapshot.seq + 1
    assert not second.retried


async def test_Q9_terminal_error_is_not_retried(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world)
    taken = await poll_one(conductor_world, task_type, workflow_id)
    status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    await finish(conductor_world, taken, status, reason="bad input")
    workflow = await workflow_of(conductor_world, workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    assert workflow.reason == (
        f"Task {taken.snapshot.task_id} failed with status: FAILED and reason: 'bad input'"
    )
    (row,) = workflow.attempts
    assert (row.snapshot.status, row.snapshot.retried, row.reason) == (status, False, "bad input")


async def test_Q17_retries_end(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world, retryCount=1)
    await fail(conductor_world, await poll_one(conductor_world, task_type, workflow_id), "one")
    last = await poll_one(conductor_world, task_type, workflow_id)
    await fail(conductor_world, last, "two")
    workflow = await workflow_of(conductor_world, workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    assert [row.reason for row in workflow.attempts] == ["one", "two"]
    assert await poll_now(conductor_world, task_type) == ()


async def test_Q18_rerun_reuses_the_row(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world)
    await fail(conductor_world, await poll_one(conductor_world, task_type, workflow_id))
    second = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    await conductor_world.workflows.terminate(workflow_id, "by hand")
    await conductor_world.workflows.rerun(workflow_id, second.task_id)
    (waiting,) = [
        row
        for row in (await snapshot_of(conductor_world, workflow_id)).tasks
        if row.task_id == second.task_id
    ]
    assert (waiting.status, waiting.poll_count) == (AttemptStatus.SCHEDULED, 0)
    again = (await poll_one(conductor_world, task_type, workflow_id, "another")).snapshot
    assert (again.task_id, again.seq) == (second.task_id, second.seq)
    assert (again.retry_count, again.retried_task_id) == (1, second.retried_task_id)
    assert (again.poll_count, again.worker_id) == (1, "another")
    assert again.scheduled_time > second.scheduled_time


async def test_Q19_restart_forgets_the_rows(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world)
    first = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    await conductor_world.workflows.terminate(workflow_id, "by hand")
    await conductor_world.workflows.restart(workflow_id)
    assert await conductor_world.queue.read_attempt(workflow_id, first.task_id) is None
    again = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    assert again.task_id != first.task_id
    assert (again.retry_count, again.retried_task_id, again.seq) == (0, None, 1)


async def test_Q20_redelivery_reuses_the_row(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world)
    taken = await poll_one(conductor_world, task_type, workflow_id)
    await conductor_world.workflows.release_without_result(taken)
    row = (await row_of(conductor_world, taken)).snapshot
    assert row.status is AttemptStatus.SCHEDULED
    again = (await poll_one(conductor_world, task_type, workflow_id, "another")).snapshot
    assert (again.task_id, again.retry_count) == (taken.snapshot.task_id, 0)
    assert (again.poll_count, again.worker_id) == (2, "another")
    assert again.scheduled_time == taken.snapshot.scheduled_time
    assert again.start_time == taken.snapshot.start_time


async def test_Q21_manual_retry_is_a_new_attempt(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world, retryCount=0)
    first = await poll_one(conductor_world, task_type, workflow_id)
    await fail(conductor_world, first)
    assert (await snapshot_of(conductor_world, workflow_id)).status is WorkflowStatus.FAILED
    await conductor_world.workflows.retry(workflow_id)
    second = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    assert second.retried_task_id == first.snapshot.task_id
    assert second.retry_count == 1
    assert (await row_of(conductor_world, first)).snapshot.retried


async def test_Q22_paused_workflow_completes(conductor_world: ConductorWorld) -> None:
    task_type = await define_task(conductor_world)
    name = await define_workflow(
        conductor_world, simple(task_type, "first"), simple(task_type, "second")
    )
    workflow_id = await conductor_world.workflows.start(name, {})
    taken = await poll_one(conductor_world, task_type, workflow_id)
    await conductor_world.workflows.pause(workflow_id)
    await finish(conductor_world, taken, output={"rows": 3})
    assert (await row_of(conductor_world, taken)).output_data == {"rows": 3}
    assert len((await snapshot_of(conductor_world, workflow_id)).tasks) == 1
    await conductor_world.workflows.resume(workflow_id)
    behind = await poll_one(conductor_world, task_type, workflow_id)
    assert behind.snapshot.reference_name == "second"


async def test_Q25_retry_resolves_inputs_anew(conductor_world: ConductorWorld) -> None:
    task_type = await define_task(conductor_world)
    name = await define_workflow(
        conductor_world, simple(task_type, "only", {"table": "${workflow.input.table}"})
    )
    workflow_id = await conductor_world.workflows.start(name, {"table": "a"})
    taken = await poll_one(conductor_world, task_type, workflow_id)
    await conductor_world.workflows.terminate(workflow_id, "by hand")
    await conductor_world.workflows.rerun(workflow_id, taken.snapshot.task_id, {"table": "b"})
    again = await poll_one(conductor_world, task_type, workflow_id)
    assert again.input_data == {"table": "b"}
    await fail(conductor_world, again)
    assert (await poll_one(conductor_world, task_type, workflow_id)).input_data == {"table": "a"}


async def test_Q26_ended_workflow_tells_when(conductor_world: ConductorWorld) -> None:
    workflow_id, task_type = await start_one_task(conductor_world, retryCount=0)
    first = (await poll_one(conductor_world, task_type, workflow_id)).snapshot
    await conductor_world.let_pass(0.05)
    await conductor_world.workflows.terminate(workflow_id, "by hand")
    ended = await snapshot_of(conductor_world, workflow_id)
    assert ended.status.is_terminal
    assert ended.ended_at > first.scheduled_time
    await conductor_world.let_pass(0.05)
    assert (await snapshot_of(conductor_world, workflow_id)).ended_at == ended.ended_at
    await conductor_world.workflows.retry(workflow_id)
    await conductor_world.let_pass(0.05)
    await conductor_world.workflows.terminate(workflow_id, "again")
    assert (await snapshot_of(conductor_world, workflow_id)).ended_at > ended.ended_at
