"""Laws of `Workflows` for everything that is not a sequence: forks, loops, switches, waits."""

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import HandBack
from perago.ports.errors import RequestRefusedError
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

LOOP_TWICE = "if ($.loop['iteration'] < 2) { true; } else { false; }"


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
    # Too late: the retry below runs this one again as well.
    await finish(conductor_under_test, two)
    await conductor_under_test.workflows.retry(workflow_id)
    for task_type in (left, right):
        again = await poll_one(conductor_under_test, task_type, workflow_id)
        assert again.snapshot.retry_count == 1
        await finish(conductor_under_test, again)
    await finish(conductor_under_test, await poll_one(conductor_under_test, left, workflow_id))
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)


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


async def test_W13_loop(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    body = [
        simple(task_type, "body", {"round": "${loop.output.iteration}", "last": "${body.output.n}"})
    ]
    name = await define_workflow(
        conductor_under_test,
        system("DO_WHILE", "loop", loopCondition=LOOP_TWICE, loopOver=body),
        simple(task_type, "behind", {"loop": "${loop.output}", "last": "${body.output.n}"}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    assert (first.snapshot.reference_name, first.snapshot.iteration) == ("body__1", 1)
    assert first.input_data == {"round": 1, "last": None}
    await finish(conductor_under_test, first, output={"n": 10})
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    assert (second.snapshot.reference_name, second.snapshot.iteration) == ("body__2", 2)
    assert second.input_data == {"round": 2, "last": 10}
    await finish(conductor_under_test, second, output={"n": 20})
    behind = await poll_one(conductor_under_test, task_type, workflow_id)
    assert behind.input_data == {
        "loop": {"iteration": 2, "1": {"body": {"n": 10}}, "2": {"body": {"n": 20}}},
        "last": 20,
    }

    # Between two iterations a cancelled loop stands alone. The pause keeps the second one from
    # beginning when the first has ended.
    alone = await conductor_under_test.workflows.start(name, {})
    inner = await poll_one(conductor_under_test, task_type, alone)
    await conductor_under_test.workflows.pause(alone)
    await finish(conductor_under_test, inner)
    await conductor_under_test.workflows.terminate(alone, "enough")
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.retry(alone)


async def test_W14_switch(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    switch = system(
        "SWITCH",
        "switch",
        evaluatorType="value-param",
        expression="case",
        inputParameters={"case": "${workflow.input.case}"},
        decisionCases={"a": [simple(task_type, "in_a")], "5": [simple(task_type, "in_5")]},
        defaultCase=[simple(task_type, "otherwise")],
    )
    name = await define_workflow(conductor_under_test, switch, simple(task_type, "behind"))
    chosen: dict[str, str] = {}
    for case in ("a", 5, "unknown", None):
        workflow_id = await conductor_under_test.workflows.start(name, {"case": case})
        taken = await poll_one(conductor_under_test, task_type, workflow_id)
        chosen[str(case)] = taken.snapshot.reference_name
        await finish(conductor_under_test, taken)
        behind = await poll_one(conductor_under_test, task_type, workflow_id)
        assert behind.snapshot.reference_name == "behind"
        await finish(conductor_under_test, behind)
        assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.COMPLETED)
    assert chosen == {"a": "in_a", "5": "in_5", "unknown": "otherwise", "None": "otherwise"}


async def test_W15_sub_workflow(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test, retryCount=0)
    inner = simple(task_type, "inner", {"n": "${workflow.input.n}"})
    child = await define_workflow(conductor_under_test, inner)
    part = system(
        "SUB_WORKFLOW",
        "part",
        subWorkflowParam={"name": child, "version": 1},
        inputParameters={"n": "${workflow.input.n}"},
    )
    behind = simple(task_type, "behind", {"m": "${part.output.m}"})
    name = await define_workflow(conductor_under_test, part, behind)
    workflow_id = await conductor_under_test.workflows.start(name, {"n": 1})
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    assert first.snapshot.workflow_id != workflow_id
    assert first.input_data == {"n": 1}
    await fail(conductor_under_test, first, "broken")
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.FAILED)
    reason = (await workflow_of(conductor_under_test, workflow_id)).reason or ""
    assert "Sub workflow" in reason
    assert "'broken'" in reason
    await conductor_under_test.workflows.retry(workflow_id)
    again = await poll_one(conductor_under_test, task_type, workflow_id)
    assert again.snapshot.workflow_id not in (workflow_id, first.snapshot.workflow_id)
    await finish(conductor_under_test, again, output={"m": 2})
    last = await poll_one(conductor_under_test, task_type, workflow_id)
    assert (last.snapshot.reference_name, last.input_data) == ("behind", {"m": 2})

    terminated = await conductor_under_test.workflows.start(name, {"n": 2})
    inner_row = await poll_one(conductor_under_test, task_type, terminated)
    # The server writes the end of a child into its paused parent, too, and decides nothing of it.
    await conductor_under_test.workflows.pause(terminated)
    await finish(conductor_under_test, inner_row, AttemptStatus.CANCELED, reason="enough")
    paused = await workflow_of(conductor_under_test, terminated)
    assert paused.status is WorkflowStatus.PAUSED
    assert paused.attempts[0].snapshot.status is AttemptStatus.CANCELED
    await conductor_under_test.workflows.resume(terminated)
    assert await reaches(conductor_under_test, terminated, WorkflowStatus.TERMINATED)


async def test_W16_output_parameters(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(
        conductor_under_test,
        simple(task_type, "only"),
        outputParameters={"rows": "${only.output.rows}", "none": "${only.output.absent}"},
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, taken, output={"rows": 3, "more": 4})
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.output_data == {"rows": 3, "none": None}


async def test_W17_optional_task_may_fail(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test, retryCount=1)
    name = await define_workflow(conductor_under_test, simple(task_type, "only", optional=True))
    workflow_id = await conductor_under_test.workflows.start(name, {})
    for _ in range(2):
        await fail(
            conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id)
        )
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.status is WorkflowStatus.COMPLETED
    # The server ends the workflow before it writes the row as COMPLETED_WITH_ERRORS.
    assert {row.snapshot.status for row in workflow.attempts} == {AttemptStatus.FAILED}


WAIT_SECONDS = 2  # seconds are the finest unit of WAIT; one could pass before the first look


async def test_W18_variables(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    given = {"limit": "${workflow.input.limit}", "mode": "fast"}
    name = await define_workflow(
        conductor_under_test,
        system("SET_VARIABLE", "set", inputParameters=given),
        simple(
            task_type,
            "reads",
            {"limit": "${workflow.variables.limit}", "none": "${workflow.variables.other}"},
        ),
        system("SET_VARIABLE", "again", inputParameters={"limit": 8}),
        simple(task_type, "rereads", {"all": "${workflow.variables}"}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {"limit": 7})
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    assert first.input_data == {"limit": 7, "none": None}
    await finish(conductor_under_test, first)
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    assert second.input_data == {"all": {"limit": 8, "mode": "fast"}}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
async def test_W19_terminate_task(conductor_under_test: ConductorUnderTest, status: str) -> None:
    task_type, other = (
        await define_task(conductor_under_test),
        await define_task(conductor_under_test),
    )
    ends = {
        "terminationStatus": status,
        "terminationReason": "enough",
        "workflowOutput": {"n": "${first.output.n}"},
    }
    branch = [simple(task_type, "first"), system("TERMINATE", "end", inputParameters=ends)]
    name = await define_workflow(
        conductor_under_test,
        system("FORK_JOIN", "fork", forkTasks=[branch, [simple(other, "open")]]),
        system("JOIN", "join", joinOn=["end", "open"]),
        simple(task_type, "never"),
        outputParameters={"unused": "x"},
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, first, output={"n": 3})
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus(status))
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.output_data == {"n": 3}
    assert workflow.reason == "enough"
    rows = {row.snapshot.reference_name: row.snapshot.status for row in workflow.attempts}
    assert rows["end"] is AttemptStatus.COMPLETED
    assert rows["open"] is AttemptStatus.CANCELED
    assert "never" not in rows
    ends["terminationStatus"] = "${workflow.input.status}"
    with pytest.raises(RequestRefusedError):
        await define_workflow(
            conductor_under_test, system("TERMINATE", "end", inputParameters=ends)
        )


async def test_W20_wait(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    wait = system("WAIT", "wait", inputParameters={"duration": f"{WAIT_SECONDS} seconds"})
    name = await define_workflow(conductor_under_test, wait, simple(task_type, "behind"))
    workflow_id = await conductor_under_test.workflows.start(name, {})
    await conductor_under_test.nudge(workflow_id)
    assert await poll_now(conductor_under_test, task_type) == ()
    (row,) = (await workflow_of(conductor_under_test, workflow_id)).attempts
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS
    await conductor_under_test.let_pass(WAIT_SECONDS)
    behind = await poll_one(conductor_under_test, task_type, workflow_id)
    assert behind.snapshot.reference_name == "behind"


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


async def test_W22_rows_of_the_server(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(
        conductor_under_test,
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
    workflow_id = await conductor_under_test.workflows.start(name, {})
    await finish(conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id))
    await poll_one(conductor_under_test, task_type, workflow_id)
    rows = (await workflow_of(conductor_under_test, workflow_id)).attempts
    types = {row.snapshot.reference_name: row.snapshot.task_type for row in rows}
    assert types == {"f": "FORK", "branch": task_type, "j": "JOIN", "s": "SWITCH"} | {
        "behind": task_type
    }
    (join,) = (row for row in rows if row.snapshot.reference_name == "j")
    assert join.input_data == {"joinOn": ["branch"]}


async def test_W24_ended_loop_stays_ended(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(
        conductor_under_test,
        system("DO_WHILE", "loop", loopCondition=LOOP_TWICE, loopOver=[simple(task_type, "body")]),
        simple(task_type, "behind"),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, first)
    for _ in range(2):
        await finish(
            conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id)
        )
    await conductor_under_test.workflows.rerun(workflow_id, first.snapshot.task_id)
    again = await poll_one(conductor_under_test, task_type, workflow_id)
    assert again.snapshot.task_id == first.snapshot.task_id
    await finish(conductor_under_test, again)
    await conductor_under_test.nudge(workflow_id)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.status is WorkflowStatus.RUNNING
    names = [row.snapshot.reference_name for row in workflow.attempts]
    assert names == ["loop", "body__1"]
    assert await poll_now(conductor_under_test, task_type) == ()
