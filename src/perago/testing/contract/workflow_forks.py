"""Laws of `Workflows` for forks: branches of tasks, of child workflows, and of the input."""

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import HandBack
from perago.testing.contract.conductor_under_test import (
    TIMEOUT_SECONDS,
    ConductorUnderTest,
    define_task,
    define_workflow,
    fail,
    finish,
    poll_now,
    poll_one,
    reaches,
    simple,
    system,
    workflow_of,
)
from perago.testing.definitions import as_object


def runs_child(child: str, reference: str, inputs: dict[str, object]) -> dict[str, object]:
    """A task that is a workflow of its own."""
    runs = {"name": child, "version": 1}
    return system("SUB_WORKFLOW", reference, subWorkflowParam=runs, inputParameters=inputs)


async def test_W11_fork_and_join(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    branches = [
        [simple(task_type, "left"), simple(task_type, "left_end")],
        [simple(task_type, "right")],
    ]
    name = await define_workflow(
        conductor_under_test,
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left_end", "right"]),
        simple(task_type, "behind", {"joined": "${join.output}"}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    both = await poll_now(conductor_under_test, task_type)
    assert {taken.snapshot.reference_name for taken in both} == {"left", "right"}
    for taken in both:
        await finish(conductor_under_test, taken, output={"of": taken.snapshot.reference_name})
    end = await poll_one(conductor_under_test, task_type, workflow_id)
    assert end.snapshot.reference_name == "left_end"
    assert await poll_now(conductor_under_test, task_type) == ()
    await finish(conductor_under_test, end, output={"of": "left_end"})
    behind = await poll_one(conductor_under_test, task_type, workflow_id)
    joined = {"left_end": {"of": "left_end"}, "right": {"of": "right"}}
    assert behind.input_data == {"joined": joined}
    rows = {
        row.snapshot.task_type: row.response_timeout_seconds
        for row in (await workflow_of(conductor_under_test, workflow_id)).attempts
    }
    assert rows.keys() == {"FORK", "JOIN", task_type}
    assert (rows["FORK"], rows["JOIN"]) == (0, 0)
    await finish(conductor_under_test, behind)
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)


async def test_W12_failed_branch_ends_the_workflow(
    conductor_under_test: ConductorUnderTest,
) -> None:
    left, right = await define_task(conductor_under_test), await define_task(conductor_under_test)
    name = await define_workflow(
        conductor_under_test,
        system(
            "FORK_JOIN",
            "fork",
            forkTasks=[[simple(left, "left")], [simple(right, "right"), simple(left, "end")]],
        ),
        # Not on what fails here: a real JOIN may look between a failure and its retry.
        system("JOIN", "join", joinOn=["end"]),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    one = await poll_one(conductor_under_test, left, workflow_id)
    two = await poll_one(conductor_under_test, right, workflow_id)
    await finish(conductor_under_test, one, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    statuses = {row.snapshot.reference_name: row.snapshot.status for row in workflow.attempts}
    assert statuses["right"] is AttemptStatus.CANCELED
    await finish(conductor_under_test, two)
    await conductor_under_test.workflows.retry(workflow_id)
    for task_type in (left, right):
        again = await poll_one(conductor_under_test, task_type, workflow_id)
        assert again.snapshot.retry_count == 1
        await finish(conductor_under_test, again)
    await finish(conductor_under_test, await poll_one(conductor_under_test, left, workflow_id))
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)


async def test_W21_dynamic_fork(conductor_under_test: ConductorUnderTest) -> None:
    one, two = await define_task(conductor_under_test), await define_task(conductor_under_test)
    tasks = [simple(one, "a", {"own": 1}), simple(two, "b")]
    fork = system(
        "FORK_JOIN_DYNAMIC",
        "fork",
        inputParameters={"tasks": "${workflow.input.tasks}", "inputs": "${workflow.input.inputs}"},
        dynamicForkTasksParam="tasks",
        dynamicForkTasksInputParamName="inputs",
    )
    name = await define_workflow(
        conductor_under_test,
        fork,
        system("JOIN", "join"),
        simple(one, "behind", {"joined": "${join.output}"}),
    )
    given = {"tasks": tasks, "inputs": {"a": {"x": 1}, "b": {"x": 2}}}
    workflow_id = await conductor_under_test.workflows.start(name, given)
    first = await poll_one(conductor_under_test, one, workflow_id)
    assert first.snapshot.reference_name == "a"
    assert first.input_data["x"] == 1
    second = await poll_one(conductor_under_test, two, workflow_id)
    assert second.input_data["x"] == 2
    await finish(conductor_under_test, second, output={"n": 2})
    assert await poll_now(conductor_under_test, one) == ()
    await finish(conductor_under_test, first, output={"n": 1})
    behind = await poll_one(conductor_under_test, one, workflow_id)
    assert behind.input_data == {"joined": {"a": {"n": 1}, "b": {"n": 2}}}


async def test_W25_handed_back_branch_keeps_the_fork(
    conductor_under_test: ConductorUnderTest,
) -> None:
    left = await define_task(conductor_under_test, retryCount=0)
    right = await define_task(conductor_under_test, retryCount=0)
    branches = [[simple(left, "left")], [simple(right, "right")]]
    name = await define_workflow(
        conductor_under_test,
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left", "right"]),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    one = await poll_one(conductor_under_test, left, workflow_id)
    await finish(conductor_under_test, await poll_one(conductor_under_test, right, workflow_id))
    for _ in range(3):
        given = HandBack(one.snapshot, "worker", "worker draining")
        await conductor_under_test.queue.hand_back(given, timeout_seconds=TIMEOUT_SECONDS)
        await conductor_under_test.nudge(workflow_id)
        workflow = await workflow_of(conductor_under_test, workflow_id)
        assert workflow.status is WorkflowStatus.RUNNING
        one = await poll_one(conductor_under_test, left, workflow_id)
    await finish(conductor_under_test, one)
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)


async def test_W26_branch_of_a_sub_workflow_outlives_its_retries(
    conductor_under_test: ConductorUnderTest,
) -> None:
    task_type = await define_task(conductor_under_test, retryCount=3)
    inner = simple(task_type, "inner", {"n": "${workflow.input.n}"})
    child = await define_workflow(conductor_under_test, inner)
    branches = [[runs_child(child, side, {"n": side})] for side in ("left", "right")]
    name = await define_workflow(
        conductor_under_test,
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left", "right"]),
        simple(task_type, "behind", {"joined": "${join.output.left.of}"}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    ended: set[str] = set()
    while len(ended) < len(branches):
        taken = await poll_one(conductor_under_test, task_type, workflow_id)
        side = str(taken.input_data["n"])
        if taken.snapshot.retry_count < 2:
            await fail(conductor_under_test, taken)
        else:
            await finish(conductor_under_test, taken, output={"of": side})
            ended.add(side)
        workflow = await workflow_of(conductor_under_test, workflow_id)
        assert workflow.status is WorkflowStatus.RUNNING, workflow.reason
    behind = await poll_one(conductor_under_test, task_type, workflow_id)
    assert behind.input_data == {"joined": "left"}
    await finish(conductor_under_test, behind)
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)


@pytest.mark.parametrize("is_child", [False, True], ids=["task", "child"])
async def test_W27_dynamic_fork_over_items(
    conductor_under_test: ConductorUnderTest, *, is_child: bool
) -> None:
    task_type = await define_task(conductor_under_test)
    inner = simple(task_type, "inner", {"all": "${workflow.input}"})
    child = await define_workflow(conductor_under_test, inner)
    runs = {"forkTaskWorkflow": child, "forkTaskWorkflowVersion": "1"}
    given: dict[str, object] = {"forkTaskInputs": "${workflow.input.items}"}
    given |= {"forkTaskName": task_type} | (runs if is_child else {})
    name = await define_workflow(
        conductor_under_test,
        system("FORK_JOIN_DYNAMIC", "fork", inputParameters=given),
        system("JOIN", "join"),
        simple(task_type, "behind", {"joined": "${join.output}"}),
    )
    items = [{"n": 10}, {"n": 11}, {"n": 12}]
    workflow_id = await conductor_under_test.workflows.start(name, {"items": items})
    found: list[dict[str, object]] = []
    for _ in items:
        taken = await poll_one(conductor_under_test, task_type, workflow_id)
        read = dict(taken.input_data)
        item = dict(as_object(read["all"])) if is_child else read
        found.append(item)
        await finish(conductor_under_test, taken, output={"of": item["n"]})
    expected = [{"n": 10, "__index": 0}, {"n": 11, "__index": 1}, {"n": 12, "__index": 2}]
    assert sorted(found, key=lambda item: str(item["n"])) == expected
    behind = await poll_one(conductor_under_test, task_type, workflow_id)
    joined = as_object(behind.input_data["joined"])
    outputs = {name: as_object(output)["of"] for name, output in joined.items()}
    assert outputs == {f"_{task_type}_{number}": 10 + number for number in range(3)}
