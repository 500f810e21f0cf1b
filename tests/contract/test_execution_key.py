"""The key rule of the specification, 7.1, in every form a user can cause, on every Conductor.

One logical execution is all retries of one scheduled task on one input. A test keeps the marks as
the application does: every attempt with a retry count leaves one before it looks for its key.
"""

from tests.contract.execution_key_scene import Application, start
from tests.redelivery import release

from perago.domain.attempt import AttemptStatus, WorkflowStatus


async def test_an_automatic_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.fail(first)
    second = await task.poll()
    assert second.snapshot.task_id != first.snapshot.task_id
    assert await application.run(second) == key


async def test_the_third_attempt_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.fail(first)
    second = await task.poll()
    assert await application.run(second) == key
    await application.scene.fail(second)
    assert await application.run(await task.poll()) == key


async def test_a_retry_after_a_response_time_out_is_the_same_execution(
    application: Application,
) -> None:
    task = await start(application.scene, responseTimeoutSeconds=1)
    key = await application.run(await task.poll())
    await application.scene.let_pass(1.2)
    await application.scene.nudge(task.workflow_id)
    second = await task.poll()
    assert second.snapshot.retry_count == 1
    assert await application.run(second) == key


async def test_a_manual_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.finish(first, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    assert await application.scene.reaches(task.workflow_id, WorkflowStatus.FAILED)
    await application.scene.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_terminate_and_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    key = await application.run(await task.poll())
    await application.scene.workflows.terminate(task.workflow_id, "by hand")
    await application.scene.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_pause_keeps_the_execution(application: Application) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.workflows.pause(task.workflow_id)
    assert await application.run(first) == key
    await application.scene.fail(first)
    await application.scene.workflows.resume(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_redelivery_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await release(application.scene.queue, first)
    again = await task.poll("another worker")
    assert again.snapshot.task_id == first.snapshot.task_id
    assert await application.run(again) == key


async def test_a_requeue_is_the_same_execution(application: Application) -> None:
    task = await start(application.scene)
    key = await application.run(await task.poll())
    await application.scene.workflows.requeue(task.task_type)
    again = await task.poll("another worker")
    assert again.snapshot.poll_count == 2
    assert await application.run(again) == key
