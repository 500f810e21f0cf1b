"""The key rule of the specification, 7.1, inside loops, forks and sub-workflows."""

from tests.contract.execution_key_scene import INPUT, REF, Application, OneTask

from perago.domain.attempt import AttemptStatus, Stale, WorkflowStatus, compare_wide
from perago.testing.contract.conductor_under_test import runs_child, simple, system
from perago.testing.contract.workflow_shapes import LOOP_TWICE


def forked(left: str, right: str) -> list[dict[str, object]]:
    """Two branches; the join waits for a task that these tests never reach.

    A real JOIN runs beside everything else: one that looks between the failure and the retry of
    a task it waits for ends the whole workflow.
    """
    branches = [[simple(left, "left", REF)], [simple(right, "right", REF), simple(right, "end")]]
    return [
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["end"]),
    ]


async def test_each_iteration_of_a_loop_is_another_execution(application: Application) -> None:
    scene = application.scene
    task_type = await scene.define_task()
    loop = system(
        "DO_WHILE",
        "loop",
        loopCondition=LOOP_TWICE,
        loopOver=[simple(task_type, "body", REF)],
    )
    task = OneTask(scene, await scene.start(loop, workflow_input=INPUT), task_type)
    first = await task.poll()
    key = await application.run(first)
    await scene.fail(first)
    retried = await task.poll()
    assert await application.run(retried) == key
    await scene.finish(retried)
    second = await task.poll()
    assert (first.snapshot.iteration, second.snapshot.iteration) == (1, 2)
    assert await application.run(second) != key


async def test_siblings_of_a_fork_are_other_executions(application: Application) -> None:
    scene = application.scene
    left, right = await scene.define_task(), await scene.define_task()
    workflow_id = await scene.start(*forked(left, right), workflow_input=INPUT)
    one = await scene.poll_one(left, workflow_id)
    key = await application.run(one)
    sibling = await application.run(await scene.poll_one(right, workflow_id))
    assert sibling != key
    await scene.fail(one)
    assert await application.run(await scene.poll_one(left, workflow_id)) == key
    await scene.workflows.terminate(workflow_id, "by hand")
    await scene.workflows.retry(workflow_id)
    assert await application.run(await scene.poll_one(left, workflow_id)) == key
    assert await application.run(await scene.poll_one(right, workflow_id)) == sibling


async def test_a_retry_of_a_sub_workflow_is_another_execution(application: Application) -> None:
    scene = application.scene
    task_type = await scene.define_task()
    child = await scene.define_workflow(simple(task_type, "inner", REF))
    workflow_id = await scene.start(runs_child(child, "part", REF), workflow_input=INPUT)
    first = await scene.poll_one(task_type, workflow_id)
    key = await application.run(first)
    await scene.finish(first, AttemptStatus.FAILED_WITH_TERMINAL_ERROR, reason="broken")
    assert await scene.reaches(workflow_id, WorkflowStatus.FAILED)
    await scene.workflows.retry(workflow_id)
    again = await scene.poll_one(task_type, workflow_id)
    assert again.snapshot.workflow_id != first.snapshot.workflow_id
    assert await application.run(again) != key


async def test_a_rerun_of_one_branch_keeps_the_execution_of_its_sibling(
    application: Application,
) -> None:
    """The sibling's row is handed out again with its old times; only the rerun row is new."""
    scene = application.scene
    left, right = await scene.define_task(), await scene.define_task()
    workflow_id = await scene.start(*forked(left, right), workflow_input=INPUT)
    old_left = await scene.poll_one(left, workflow_id)
    left_key = await application.run(old_left)
    old_right = await scene.poll_one(right, workflow_id)
    right_key = await application.run(old_right)
    await scene.workflows.terminate(workflow_id, "by hand")
    await scene.workflows.rerun(workflow_id, old_right.snapshot.task_id)
    new_left = await scene.poll_one(left, workflow_id)
    assert new_left.snapshot.task_id == old_left.snapshot.task_id
    assert new_left.snapshot.poll_count == 2
    assert await application.run(new_left) == left_key
    assert await application.run(await scene.poll_one(right, workflow_id)) != right_key
    stale = compare_wide(old_left.snapshot, await scene.snapshot_of(workflow_id))
    assert isinstance(stale, Stale)
