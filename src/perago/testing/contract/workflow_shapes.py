"""Laws of `Workflows` for everything that is not a sequence: forks, loops, switches, waits."""

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.errors import RequestRefusedError
from perago.testing.contract.conductor_under_test import ConductorScene, runs_child, simple, system
from perago.testing.contract.conductor_under_test import scene as scene

LOOP_TWICE = "if ($.loop['iteration'] < 2) { true; } else { false; }"


async def test_W11_fork_and_join(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    branches = [
        [simple(task_type, "left"), simple(task_type, "left_end")],
        [simple(task_type, "right")],
    ]
    workflow_id = await scene.start(
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left_end", "right"]),
        simple(task_type, "behind", {"joined": "${join.output}"}),
    )
    both = await scene.poll_now(task_type)
    assert {taken.snapshot.reference_name for taken in both} == {"left", "right"}
    for taken in both:
        await scene.finish(taken, output={"of": taken.snapshot.reference_name})
    end = await scene.poll_one(task_type, workflow_id)
    assert end.snapshot.reference_name == "left_end"
    assert await scene.poll_now(task_type) == ()
    await scene.finish(end, output={"of": "left_end"})
    behind = await scene.poll_one(task_type, workflow_id)
    joined = {"left_end": {"of": "left_end"}, "right": {"of": "right"}}
    assert behind.input_data == {"joined": joined}
    rows = {
        row.snapshot.task_type: row.response_timeout_seconds
        for row in (await scene.workflow_of(workflow_id)).attempts
    }
    assert rows.keys() == {"FORK", "JOIN", task_type}
    assert (rows["FORK"], rows["JOIN"]) == (0, 0)
    await scene.finish(behind)
    assert await scene.reaches(workflow_id, WorkflowStatus.COMPLETED)


async def test_W12_failed_branch_ends_the_workflow(scene: ConductorScene) -> None:
    left, right = await scene.define_task(), await scene.define_task()
    workflow_id = await scene.start(
        system(
            "FORK_JOIN",
            "fork",
            forkTasks=[[simple(left, "left")], [simple(right, "right"), simple(left, "end")]],
        ),
        # Not on what fails here: a real JOIN may look between a failure and its retry.
        system("JOIN", "join", joinOn=["end"]),
    )
    one = await scene.poll_one(left, workflow_id)
    two = await scene.poll_one(right, workflow_id)
    await scene.finish(one, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    statuses = {row.snapshot.reference_name: row.snapshot.status for row in workflow.attempts}
    assert statuses["right"] is AttemptStatus.CANCELED
    # Too late: the retry below runs this one again as well.
    await scene.finish(two)
    await scene.workflows.retry(workflow_id)
    for task_type in (left, right):
        again = await scene.poll_one(task_type, workflow_id)
        assert again.snapshot.retry_count == 1
        await scene.finish(again)
    await scene.finish(await scene.poll_one(left, workflow_id))
    assert await scene.reaches(workflow_id, WorkflowStatus.COMPLETED)


async def test_W25_handed_back_branch_keeps_the_fork(scene: ConductorScene) -> None:
    left = await scene.define_task(retryCount=0)
    right = await scene.define_task(retryCount=0)
    branches = [[simple(left, "left")], [simple(right, "right")]]
    workflow_id = await scene.start(
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left", "right"]),
    )
    one = await scene.poll_one(left, workflow_id)
    await scene.finish(await scene.poll_one(right, workflow_id))
    for _ in range(3):
        await scene.hand_back(one)
        await scene.nudge(workflow_id)
        workflow = await scene.workflow_of(workflow_id)
        assert workflow.status is WorkflowStatus.RUNNING
        one = await scene.poll_one(left, workflow_id)
    await scene.finish(one)
    assert await scene.reaches(workflow_id, WorkflowStatus.COMPLETED)


async def test_W13_loop(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    body = [
        simple(task_type, "body", {"round": "${loop.output.iteration}", "last": "${body.output.n}"})
    ]
    name = await scene.define_workflow(
        system("DO_WHILE", "loop", loopCondition=LOOP_TWICE, loopOver=body),
        simple(task_type, "behind", {"loop": "${loop.output}", "last": "${body.output.n}"}),
    )
    workflow_id = await scene.workflows.start(name, {})
    first = await scene.poll_one(task_type, workflow_id)
    assert (first.snapshot.reference_name, first.snapshot.iteration) == ("body__1", 1)
    assert first.input_data == {"round": 1, "last": None}
    await scene.finish(first, output={"n": 10})
    second = await scene.poll_one(task_type, workflow_id)
    assert (second.snapshot.reference_name, second.snapshot.iteration) == ("body__2", 2)
    assert second.input_data == {"round": 2, "last": 10}
    await scene.finish(second, output={"n": 20})
    behind = await scene.poll_one(task_type, workflow_id)
    assert behind.input_data == {
        "loop": {"iteration": 2, "1": {"body": {"n": 10}}, "2": {"body": {"n": 20}}},
        "last": 20,
    }

    # Between two iterations a cancelled loop stands alone. The pause keeps the second one from
    # beginning when the first has ended.
    alone = await scene.workflows.start(name, {})
    inner = await scene.poll_one(task_type, alone)
    await scene.workflows.pause(alone)
    await scene.finish(inner)
    await scene.workflows.terminate(alone, "enough")
    with pytest.raises(RequestRefusedError):
        await scene.workflows.retry(alone)


async def test_W14_switch(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    switch = system(
        "SWITCH",
        "switch",
        evaluatorType="value-param",
        expression="case",
        inputParameters={"case": "${workflow.input.case}"},
        decisionCases={"a": [simple(task_type, "in_a")], "5": [simple(task_type, "in_5")]},
        defaultCase=[simple(task_type, "otherwise")],
    )
    name = await scene.define_workflow(switch, simple(task_type, "behind"))
    chosen: dict[str, str] = {}
    for case in ("a", 5, "unknown", None):
        workflow_id = await scene.workflows.start(name, {"case": case})
        taken = await scene.poll_one(task_type, workflow_id)
        chosen[str(case)] = taken.snapshot.reference_name
        await scene.finish(taken)
        behind = await scene.poll_one(task_type, workflow_id)
        assert behind.snapshot.reference_name == "behind"
        await scene.finish(behind)
        assert await scene.reaches(workflow_id, WorkflowStatus.COMPLETED)
    assert chosen == {"a": "in_a", "5": "in_5", "unknown": "otherwise", "None": "otherwise"}


async def test_W15_sub_workflow(scene: ConductorScene) -> None:
    task_type = await scene.define_task(retryCount=0)
    inner = simple(task_type, "inner", {"n": "${workflow.input.n}"})
    child = await scene.define_workflow(inner)
    part = runs_child(child, "part", {"n": "${workflow.input.n}"})
    behind = simple(task_type, "behind", {"m": "${part.output.m}"})
    name = await scene.define_workflow(part, behind)
    workflow_id = await scene.workflows.start(name, {"n": 1})
    first = await scene.poll_one(task_type, workflow_id)
    assert first.snapshot.workflow_id != workflow_id
    assert first.input_data == {"n": 1}
    await scene.fail(first, "broken")
    assert await scene.reaches(workflow_id, WorkflowStatus.FAILED)
    reason = (await scene.workflow_of(workflow_id)).reason or ""
    assert "Sub workflow" in reason
    assert "'broken'" in reason
    await scene.workflows.retry(workflow_id)
    again = await scene.poll_one(task_type, workflow_id)
    assert again.snapshot.workflow_id not in (workflow_id, first.snapshot.workflow_id)
    await scene.finish(again, output={"m": 2})
    last = await scene.poll_one(task_type, workflow_id)
    assert (last.snapshot.reference_name, last.input_data) == ("behind", {"m": 2})

    terminated = await scene.workflows.start(name, {"n": 2})
    inner_row = await scene.poll_one(task_type, terminated)
    # The server writes the end of a child into its paused parent, too, and decides nothing of it.
    await scene.workflows.pause(terminated)
    await scene.finish(inner_row, AttemptStatus.CANCELED, reason="enough")
    paused = await scene.workflow_of(terminated)
    assert paused.status is WorkflowStatus.PAUSED
    assert paused.attempts[0].snapshot.status is AttemptStatus.CANCELED
    await scene.workflows.resume(terminated)
    assert await scene.reaches(terminated, WorkflowStatus.TERMINATED)


async def test_W16_output_parameters(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    name = await scene.define_workflow(
        simple(task_type, "only"),
        outputParameters={"rows": "${only.output.rows}", "none": "${only.output.absent}"},
    )
    workflow_id = await scene.workflows.start(name, {})
    taken = await scene.poll_one(task_type, workflow_id)
    await scene.finish(taken, output={"rows": 3, "more": 4})
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.output_data == {"rows": 3, "none": None}


async def test_W17_optional_task_may_fail(scene: ConductorScene) -> None:
    task_type = await scene.define_task(retryCount=1)
    workflow_id = await scene.start(simple(task_type, "only", optional=True))
    for _ in range(2):
        await scene.fail(await scene.poll_one(task_type, workflow_id))
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.COMPLETED
    # The server ends the workflow before it writes the row as COMPLETED_WITH_ERRORS.
    assert {row.snapshot.status for row in workflow.attempts} == {AttemptStatus.FAILED}


WAIT_SECONDS = 2  # seconds are the finest unit of WAIT; one could pass before the first look


async def test_W18_variables(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    given = {"limit": "${workflow.input.limit}", "mode": "fast"}
    workflow_id = await scene.start(
        system("SET_VARIABLE", "set", inputParameters=given),
        simple(
            task_type,
            "reads",
            {"limit": "${workflow.variables.limit}", "none": "${workflow.variables.other}"},
        ),
        system("SET_VARIABLE", "again", inputParameters={"limit": 8}),
        simple(task_type, "rereads", {"all": "${workflow.variables}"}),
        workflow_input={"limit": 7},
    )
    first = await scene.poll_one(task_type, workflow_id)
    assert first.input_data == {"limit": 7, "none": None}
    await scene.finish(first)
    second = await scene.poll_one(task_type, workflow_id)
    assert second.input_data == {"all": {"limit": 8, "mode": "fast"}}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
async def test_W19_terminate_task(scene: ConductorScene, status: str) -> None:
    task_type, other = await scene.define_task(), await scene.define_task()
    ends = {
        "terminationStatus": status,
        "terminationReason": "enough",
        "workflowOutput": {"n": "${first.output.n}"},
    }
    branch = [simple(task_type, "first"), system("TERMINATE", "end", inputParameters=ends)]
    name = await scene.define_workflow(
        system("FORK_JOIN", "fork", forkTasks=[branch, [simple(other, "open")]]),
        system("JOIN", "join", joinOn=["end", "open"]),
        simple(task_type, "never"),
        outputParameters={"unused": "x"},
    )
    workflow_id = await scene.workflows.start(name, {})
    first = await scene.poll_one(task_type, workflow_id)
    await scene.finish(first, output={"n": 3})
    assert await scene.reaches(workflow_id, WorkflowStatus(status))
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.output_data == {"n": 3}
    assert workflow.reason == "enough"
    rows = {row.snapshot.reference_name: row.snapshot.status for row in workflow.attempts}
    assert rows["end"] is AttemptStatus.COMPLETED
    assert rows["open"] is AttemptStatus.CANCELED
    assert "never" not in rows
    ends["terminationStatus"] = "${workflow.input.status}"
    with pytest.raises(RequestRefusedError):
        await scene.define_workflow(system("TERMINATE", "end", inputParameters=ends))


async def test_W20_wait(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    wait = system("WAIT", "wait", inputParameters={"duration": f"{WAIT_SECONDS} seconds"})
    workflow_id = await scene.start(wait, simple(task_type, "behind"))
    await scene.nudge(workflow_id)
    assert await scene.poll_now(task_type) == ()
    (row,) = (await scene.workflow_of(workflow_id)).attempts
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS
    await scene.let_pass(WAIT_SECONDS)
    behind = await scene.poll_one(task_type, workflow_id)
    assert behind.snapshot.reference_name == "behind"


async def test_W21_dynamic_fork(scene: ConductorScene) -> None:
    one, two = await scene.define_task(), await scene.define_task()
    tasks = [simple(one, "a", {"own": 1}), simple(two, "b")]
    fork = system(
        "FORK_JOIN_DYNAMIC",
        "fork",
        inputParameters={"tasks": "${workflow.input.tasks}", "inputs": "${workflow.input.inputs}"},
        dynamicForkTasksParam="tasks",
        dynamicForkTasksInputParamName="inputs",
    )
    behind = simple(one, "behind", {"joined": "${join.output}"})
    given = {"tasks": tasks, "inputs": {"a": {"x": 1}, "b": {"x": 2}}}
    workflow_id = await scene.start(fork, system("JOIN", "join"), behind, workflow_input=given)
    first = await scene.poll_one(one, workflow_id)
    assert first.snapshot.reference_name == "a"
    assert first.input_data["x"] == 1
    second = await scene.poll_one(two, workflow_id)
    assert second.input_data["x"] == 2
    await scene.finish(second, output={"n": 2})
    assert await scene.poll_now(one) == ()
    await scene.finish(first, output={"n": 1})
    last = await scene.poll_one(one, workflow_id)
    assert last.input_data == {"joined": {"a": {"n": 1}, "b": {"n": 2}}}


async def test_W22_rows_of_the_server(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(
        system("FORK_JOIN", "f", forkTasks=[[simple(task_type, "branch")]]),
        system("JOIN", "j", joinOn=["branch"]),
        system(
            "SWITCH",
            "s",
            evaluatorType="value-param",
            expression="case",
            inputParameters={"case": "one"},
            decisionCases={"one": [simple(task_type, "behind")]},
        ),
    )
    await scene.finish(await scene.poll_one(task_type, workflow_id))
    await scene.poll_one(task_type, workflow_id)
    rows = (await scene.workflow_of(workflow_id)).attempts
    types = {row.snapshot.reference_name: row.snapshot.task_type for row in rows}
    assert types == {"f": "FORK", "branch": task_type, "j": "JOIN", "s": "SWITCH"} | {
        "behind": task_type
    }
    (join,) = (row for row in rows if row.snapshot.reference_name == "j")
    assert join.input_data == {"joinOn": ["branch"]}


async def test_W24_ended_loop_stays_ended(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(
        system("DO_WHILE", "loop", loopCondition=LOOP_TWICE, loopOver=[simple(task_type, "body")]),
        simple(task_type, "behind"),
    )
    first = await scene.poll_one(task_type, workflow_id)
    await scene.finish(first)
    for _ in range(2):
        await scene.finish(await scene.poll_one(task_type, workflow_id))
    await scene.workflows.rerun(workflow_id, first.snapshot.task_id)
    again = await scene.poll_one(task_type, workflow_id)
    assert again.snapshot.task_id == first.snapshot.task_id
    await scene.finish(again)
    await scene.nudge(workflow_id)
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.RUNNING
    names = [row.snapshot.reference_name for row in workflow.attempts]
    assert names == ["loop", "body__1"]
    assert await scene.poll_now(task_type) == ()
