"""Laws of perago.ports.workflows: the steps that the server runs itself."""

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.testing.contract.conductor_scene import (
    define_task,
    define_workflow,
    finish,
    poll_now,
    poll_one,
    reaches,
    simple,
    system,
    workflow_of,
)
from perago.testing.contract.conductor_world import ConductorWorld

WAIT_SECONDS = 2


async def test_W18_variables(conductor_world: ConductorWorld) -> None:
    task_type = await define_task(conductor_world)
    given = {"limit": "${workflow.input.limit}", "mode": "fast"}
    name = await define_workflow(
        conductor_world,
        system("SET_VARIABLE", "set", inputParameters=given),
        simple(
            task_type,
            "reads",
            {"limit": "${workflow.variables.limit}", "none": "${workflow.variables.other}"},
        ),
        system("SET_VARIABLE", "again", inputParameters={"limit": 8}),
        simple(task_type, "rereads", {"all": "${workflow.variables}"}),
    )
    workflow_id = await conductor_world.workflows.start(name, {"limit": 7})
    first = await poll_one(conductor_world, task_type, workflow_id)
    assert first.input_data == {"limit": 7, "none": None}
    await finish(conductor_world, first)
    second = await poll_one(conductor_world, task_type, workflow_id)
    assert second.input_data == {"all": {"limit": 8, "mode": "fast"}}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
async def test_W19_terminate_task(conductor_world: ConductorWorld, status: str) -> None:
    task_type, other = await define_task(conductor_world), await define_task(conductor_world)
    ends = {
        "terminationStatus": status,
        "terminationReason": "enough",
        "workflowOutput": {"n": "${first.output.n}"},
    }
    branch = [simple(task_type, "first"), system("TERMINATE", "end", inputParameters=ends)]
    name = await define_workflow(
        conductor_world,
        system("FORK_JOIN", "fork", forkTasks=[branch, [simple(other, "open")]]),
        system("JOIN", "join", joinOn=["end", "open"]),
        simple(task_type, "never"),
        outputParameters={"unused": "x"},
    )
    workflow_id = await conductor_world.workflows.start(name, {})
    first = await poll_one(conductor_world, task_type, workflow_id)
    await finish(conductor_world, first, output={"n": 3})
    assert await reaches(conductor_world, workflow_id, WorkflowStatus(status))
    workflow = await workflow_of(conductor_world, workflow_id)
    assert workflow.output_data == {"n": 3}
    assert workflow.reason == "enough"
    rows = {row.snapshot.reference_name: row.snapshot.status for row in workflow.attempts}
    assert rows["end"] is AttemptStatus.COMPLETED
    assert rows["open"] is AttemptStatus.CANCELED
    assert "never" not in rows


async def test_W20_wait(conductor_world: ConductorWorld) -> None:
    task_type = await define_task(conductor_world)
    wait = system("WAIT", "wait", inputParameters={"duration": f"{WAIT_SECONDS} seconds"})
    name = await define_workflow(conductor_world, wait, simple(task_type, "behind"))
    workflow_id = await conductor_world.workflows.start(name, {})
    await conductor_world.nudge(workflow_id)
    assert await poll_now(conductor_world, task_type) == ()
    (row,) = (await workflow_of(conductor_world, workflow_id)).attempts
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS
    await conductor_world.let_pass(WAIT_SECONDS)
    behind = await poll_one(conductor_world, task_type, workflow_id)
    assert behind.snapshot.reference_name == "behind"


async def test_W21_dynamic_fork(conductor_world: ConductorWorld) -> None:
    one, two = await define_task(conductor_world), await define_task(conductor_world)
    tasks = [simple(one, "a", {"own": 1}), simple(two, "b")]
    fork = system(
        "FORK_JOIN_DYNAMIC",
        "fork",
        inputParameters={"tasks": "${workflow.input.tasks}", "inputs": "${workflow.input.inputs}"},
        dynamicForkTasksParam="tasks",
        dynamicForkTasksInputParamName="inputs",
    )
    name = await define_workflow(
        conductor_world,
        fork,
        system("JOIN", "join"),
        simple(one, "behind", {"joined": "${join.output}"}),
    )
    given = {"tasks": tasks, "inputs": {"a": {"x": 1}, "b": {"x": 2}}}
    workflow_id = await conductor_world.workflows.start(name, given)
    first = await poll_one(conductor_world, one, workflow_id)
    assert first.snapshot.reference_name == "a"
    assert first.input_data["x"] == 1
    second = await poll_one(conductor_world, two, workflow_id)
    assert second.input_data["x"] == 2
    await finish(conductor_world, second, output={"n": 2})
    assert await poll_now(conductor_world, one) == ()
    await finish(conductor_world, first, output={"n": 1})
    behind = await poll_one(conductor_world, one, workflow_id)
    assert behind.input_data == {"joined": {"a": {"n": 1}, "b": {"n": 2}}}
