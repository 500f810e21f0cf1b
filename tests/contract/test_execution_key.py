"""The key rule of the specification, 7.1, in every form a user can cause, on every Conductor.

One logical execution is all retries of one scheduled task on one input. A test keeps the marks as
the application does: every attempt with a retry count leaves one before it looks for its key.
"""

from tests.contract.execution_key_scene import Application, start

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.testing.contract.conductor_under_test import fail, finish, reaches


async def test_an_automatic_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await fail(application.world, first)
    second = await task.poll()
    assert second.snapshot.task_id != first.snapshot.task_id
    assert await application.run(second) == key


async def test_the_third_attempt_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await fail(application.world, first)
    second = await task.poll()
    assert await application.run(second) == key
    await fail(application.world, second)
    assert await application.run(await task.poll()) == key


async def test_a_retry_after_a_response_time_out_is_the_same_execution(
    application: Application,
) -> None:
    task = await start(application.world, responseTimeoutSeconds=1)
    key = await application.run(await task.poll())
    await application.world.let_pass(1.2)
    await application.world.nudge(task.workflow_id)
    second = await task.poll()
    assert second.snapshot.retry_count == 1
    assert await application.run(second) == key


async def test_a_manual_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await finish(application.world, first, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    assert await reaches(application.world, task.workflow_id, WorkflowStatus.FAILED)
    await application.world.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_terminate_and_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    key = await application.run(await task.poll())
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_pause_keeps_the_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await application.world.workflows.pause(task.workflow_id)
    assert await application.run(first) == key
    await fail(application.world, first)
    await application.world.workflows.resume(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_redelivery_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await application.world.workflows.release_without_result(first)
    again = await task.poll("another worker")
    assert again.snapshot.task_id == first.snapshot.task_id
    assert await application.run(again) == key


async def test_a_requeue_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    key = await application.run(await task.poll())
    await application.world.workflows.requeue(task.task_type)
    again = await task.poll("another worker")
    assert again.snapshot.poll_count == 2
    assert await application.run(again) == key
