"""The key rule of the specification, 7.1: what a rerun or a restart does to the key."""

from tests.contract.execution_key_scene import Application, chain_of, retried_once, start

from perago.domain.attempt import Stale, compare_wide


async def test_a_rerun_from_the_first_attempt_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await task.rerun(first.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.task_id == first.snapshot.task_id
    other = await application.run(again)
    assert other != key
    await application.scene.fail(again)
    assert await application.run(await task.poll()) == other


async def test_a_rerun_from_the_first_of_several_attempts_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    key = await application.run(second)
    first_id = second.snapshot.retried_task_id
    assert first_id is not None
    await task.rerun(first_id)
    assert await application.run(await task.poll()) != key


async def test_a_rerun_from_a_retried_attempt_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    key = await application.run(second)
    await task.rerun(second.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.task_id == second.snapshot.task_id
    assert again.snapshot.retry_count == 1
    assert again.snapshot.retried_task_id == second.snapshot.retried_task_id
    assert again.snapshot.scheduled_time > second.snapshot.scheduled_time
    assert await application.run(again) != key


async def test_retries_of_a_rerun_belong_to_the_rerun(application: Application) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    await application.run(second)
    await task.rerun(second.snapshot.task_id)
    again = await task.poll()
    key = await application.run(again)
    await application.scene.fail(again)
    third = await task.poll()
    assert third.snapshot.retry_count == 2
    assert await application.run(third) == key


async def test_every_rerun_from_a_retried_attempt_is_an_execution_of_its_own(
    application: Application,
) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    keys = [await application.run(second)]
    for _ in range(2):
        await task.rerun(second.snapshot.task_id)
        keys.append(await application.run(await task.poll()))
    assert len(set(keys)) == 3


async def test_a_rerun_from_a_retried_attempt_with_another_input_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    key = await application.run(second)
    await task.rerun(second.snapshot.task_id, {"ref": "commit-b"})
    again = await task.poll()
    assert again.input_data["ref"] == "commit-b"
    assert chain_of(await application.run(again)) != chain_of(key)


async def test_a_rerun_of_an_attempt_that_never_ran_is_the_same_execution(
    application: Application,
) -> None:
    """It left no mark; what the attempts before it decided stays decided."""
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.fail(first)
    waiting = await task.waiting()
    assert waiting.retried_task_id == first.snapshot.task_id
    await task.rerun(waiting.task_id)
    assert await application.run(await task.poll()) == key


async def test_a_rerun_of_the_task_before_is_another_execution(application: Application) -> None:
    task = await start(application.scene)
    before = await task.poll()
    await application.scene.finish(before)
    key = await application.run(await task.poll())
    await task.rerun(before.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.reference_name == "only"
    await application.scene.finish(again)
    behind = await task.poll()
    assert behind.snapshot.reference_name == "next"
    assert await application.run(behind) != key


async def test_a_restart_is_another_execution(application: Application) -> None:
    task = await start(application.scene)
    key = await application.run(await task.poll())
    await application.scene.workflows.terminate(task.workflow_id, "by hand")
    await application.scene.workflows.restart(task.workflow_id)
    again = await task.poll()
    assert again.snapshot.workflow_id == task.workflow_id
    assert await application.run(again) != key


async def test_a_holder_from_before_a_rerun_is_stale_before_it_can_take_the_new_key(
    application: Application,
) -> None:
    task = await start(application.scene)
    second = await retried_once(task, application)
    await application.run(second)
    await task.rerun(second.snapshot.task_id)
    await task.poll("another worker")
    workflow = await application.scene.snapshot_of(task.workflow_id)
    assert isinstance(compare_wide(second.snapshot, workflow), Stale)


async def test_a_retry_on_another_input_is_the_same_chain_with_another_key(
    application: Application,
) -> None:
    """The rerun carries an input of its own; its retry resolves the definition's again."""
    task = await start(application.scene)
    first = await task.poll()
    await task.rerun(first.snapshot.task_id, {"ref": "commit-b"})
    again = await task.poll()
    key = await application.run(again)
    await application.scene.fail(again)
    second = await task.poll()
    assert (again.input_data["ref"], second.input_data["ref"]) == ("commit-b", "commit-a")
    other = await application.run(second)
    assert other != key
    assert chain_of(other) == chain_of(key)


async def test_a_retry_with_other_params_is_the_same_chain_with_another_key(
    application: Application,
) -> None:
    """The operator reruns an attempt that no worker polled, and gives it params of his own."""
    task = await start(application.scene)
    first = await task.poll()
    key = await application.run(first)
    await application.scene.fail(first)
    waiting = await task.waiting()
    await task.rerun(waiting.task_id, {**first.input_data, "params": {"knob": 7}})
    again = await task.poll()
    assert again.input_data["params"] == {"knob": 7}
    other = await application.run(again)
    assert other != key
    assert chain_of(other) == chain_of(key)


async def test_a_mark_that_lands_after_a_rerun_changes_no_key(application: Application) -> None:
    """Its attempt was handed out and stood still until its row was rerun by a user."""
    task = await start(application.scene)
    first = await task.poll()
    await application.run(first)
    await application.scene.fail(first)
    slow = await task.poll()
    await task.rerun(slow.snapshot.task_id)
    again = await task.poll()
    key = await application.run(again)

    application.late_mark(slow.snapshot)

    await application.scene.fail(again)
    third = await task.poll()
    assert third.snapshot.retry_count == 2
    assert await application.run(third) == key
