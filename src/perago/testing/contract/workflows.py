"""Laws of `Workflows`: sequences, the verbs of an operator, and forks that are built to last."""

from collections.abc import Awaitable, Mapping

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.errors import MissingError, OutcomeUnknownError, RequestRefusedError
from perago.testing.contract.conductor_under_test import (
    OWNER,
    ConductorUnderTest,
    define_task,
    define_workflow,
    fail,
    finish,
    poll_now,
    poll_one,
    reaches,
    simple,
    start_one_task,
    system,
    workflow_of,
)
from perago.testing.definitions import as_list, as_object

WORKFLOW_INPUT: Mapping[str, object] = {
    "text": "hello",
    "number": 3,
    "fraction": 1.5,
    "yes": True,
    "nothing": None,
    "table": {"rows": [1, {"name": "second"}], "empty": None},
    "expression": "${workflow.input.text}",
}
# Template -> what the task finds in its input.
EXPRESSIONS: Mapping[str, tuple[object, object]] = {
    "a text": ("${workflow.input.text}", "hello"),
    "a number keeps its type": ("${workflow.input.number}", 3),
    "a boolean keeps its type": ("${workflow.input.yes}", True),
    "an object keeps its type": ("${workflow.input.table}", WORKFLOW_INPUT["table"]),
    "the whole input": ("${workflow.input}", WORKFLOW_INPUT),
    "an element of a list": ("${workflow.input.table.rows[1].name}", "second"),
    "the last element": ("${workflow.input.table.rows[-1]}", {"name": "second"}),
    "a key in brackets": ("${workflow.input['text']}", "hello"),
    "inside a text": ("<${workflow.input.text}>", "<hello>"),
    "two in a text": ("${workflow.input.number}${workflow.input.text}", "3hello"),
    "an object in a text": (
        "${workflow.input.table}",
        {"rows": [1, {"name": "second"}], "empty": None},
    ),
    "an object written into a text": (
        "= ${workflow.input.table}",
        "= {rows=[1, {name=second}], empty=null}",
    ),
    "other types written into a text": (
        "${workflow.input.yes} ${workflow.input.fraction} ${workflow.input.nothing}",
        "true 1.5 null",
    ),
    "null": ("${workflow.input.nothing}", None),
    "missing": ("${workflow.input.absent}", None),
    "missing below a text": ("${workflow.input.text.deeper}", None),
    "missing below missing": ("${workflow.input.absent.deeper}", None),
    "beyond the list": ("${workflow.input.table.rows[9]}", None),
    "missing inside a text": ("<${workflow.input.absent}>", "<null>"),
    "escaped": ("$${workflow.input.text}", "${workflow.input.text}"),
    "a value is not resolved again": ("${workflow.input.expression}", "${workflow.input.text}"),
    "nested in lists and objects": (
        {"deep": ["${workflow.input.number}", {"er": "${workflow.input.text}"}]},
        {"deep": [3, {"er": "hello"}]},
    ),
    "no expression": ({"plain": [1, "two", None]}, {"plain": [1, "two", None]}),
}


async def two_tasks(under_test: ConductorUnderTest) -> tuple[str, str]:
    """Start a workflow of two tasks; its id and their type."""
    task_type = await define_task(under_test)
    tasks = simple(task_type, "first"), simple(task_type, "second")
    name = await define_workflow(under_test, *tasks)
    workflow_id = await under_test.workflows.start(name, {})
    assert (await workflow_of(under_test, workflow_id)).name == name
    return workflow_id, task_type


async def test_W1_sequence(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await two_tasks(conductor_under_test)
    for name in ("first", "second"):
        (taken,) = await poll_now(conductor_under_test, task_type)
        assert taken.snapshot.reference_name == name
        assert await poll_now(conductor_under_test, task_type) == ()
        await finish(conductor_under_test, taken, output={"done": name})
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.status is WorkflowStatus.COMPLETED
    assert workflow.output_data == {"done": "second"}
    assert [row.snapshot.seq for row in workflow.attempts] == [1, 2]


async def test_W2_start_of_unknown_definition(conductor_under_test: ConductorUnderTest) -> None:
    with pytest.raises(MissingError):
        await conductor_under_test.workflows.start(conductor_under_test.unique("unknown"), {})
    known = await define_workflow(conductor_under_test, simple("any", "only"))
    with pytest.raises(MissingError):
        await conductor_under_test.workflows.start(known, {}, version=2)


async def test_W3_input_expressions(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    templates = {name: template for name, (template, _) in EXPRESSIONS.items()}
    name = await define_workflow(
        conductor_under_test,
        simple(task_type, "first", templates),
        simple(
            task_type,
            "second",
            {
                "output": "${first.output}",
                "part": "${first.output.table[0]}",
                "input": "${first.input.missing}",
                "text": "${first.input['a text']}",
                "status": "${first.status}",
                "task": "${first.taskId}",
                "workflow": "${workflow.workflowId}",
            },
        ),
    )
    workflow_id = await conductor_under_test.workflows.start(name, WORKFLOW_INPUT)
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    assert first.input_data == {name: found for name, (_, found) in EXPRESSIONS.items()}
    await finish(conductor_under_test, first, output={"table": [{"rows": 3}]})
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    assert second.input_data == {
        "output": {"table": [{"rows": 3}]},
        "part": {"rows": 3},
        "input": None,
        "text": "hello",
        "status": "COMPLETED",
        "task": first.snapshot.task_id,
        "workflow": workflow_id,
    }


async def test_W4_missing_output_is_null(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test, retryCount=0)
    name = await define_workflow(
        conductor_under_test,
        simple(task_type, "first", optional=True),
        simple(task_type, "second", {"workspace": "${first.output.workspace}", "n": 1}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {})
    await fail(conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id))
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    assert second.input_data == {"workspace": None, "n": 1}
    first = (await workflow_of(conductor_under_test, workflow_id)).attempts[0].snapshot
    assert first.status is AttemptStatus.COMPLETED_WITH_ERRORS


async def test_W5_pause_holds_the_next_task(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await two_tasks(conductor_under_test)
    await conductor_under_test.workflows.pause(workflow_id)
    # What was scheduled before the pause is handed out all the same.
    (first,) = await poll_now(conductor_under_test, task_type)
    await finish(conductor_under_test, first)
    await conductor_under_test.nudge(workflow_id)
    assert await poll_now(conductor_under_test, task_type) == ()
    paused = await workflow_of(conductor_under_test, workflow_id)
    assert (paused.status, len(paused.attempts)) == (WorkflowStatus.PAUSED, 1)
    await conductor_under_test.workflows.resume(workflow_id)
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    assert second.snapshot.reference_name == "second"
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.resume(workflow_id)


async def test_W6_terminate_is_idempotent(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    await conductor_under_test.workflows.terminate(workflow_id, "first reason")
    await conductor_under_test.workflows.terminate(workflow_id, "second reason")
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "first reason")
    assert await poll_now(conductor_under_test, task_type) == ()

    failed_id, failed_type = await start_one_task(conductor_under_test)
    taken = await poll_one(conductor_under_test, failed_type, failed_id)
    await finish(conductor_under_test, taken, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    await conductor_under_test.workflows.terminate(failed_id, "after the fact")
    workflow = await workflow_of(conductor_under_test, failed_id)
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "after the fact")

    other_id, other_type = await start_one_task(conductor_under_test)
    await finish(conductor_under_test, await poll_one(conductor_under_test, other_type, other_id))
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.terminate(other_id, "too late")
    assert (await workflow_of(conductor_under_test, other_id)).status is WorkflowStatus.COMPLETED


async def test_W7_retry_needs_a_failed_workflow(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.retry(workflow_id)
    await finish(conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id))
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.retry(workflow_id)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert (workflow.status, len(workflow.attempts)) == (WorkflowStatus.COMPLETED, 1)


async def test_W8_rerun_needs_a_finished_workflow(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    with pytest.raises(RequestRefusedError):
        await conductor_under_test.workflows.rerun(workflow_id, taken.snapshot.task_id)
    assert (await workflow_of(conductor_under_test, workflow_id)).attempts == (taken,)
    await finish(conductor_under_test, taken)
    await conductor_under_test.workflows.rerun(workflow_id, taken.snapshot.task_id)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert workflow.status is WorkflowStatus.RUNNING
    assert workflow.attempts[0].output_data == {}


async def test_W9_restart_starts_from_the_first_task(
    conductor_under_test: ConductorUnderTest,
) -> None:
    workflow_id, task_type = await two_tasks(conductor_under_test)
    first = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, first)
    second = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, second, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.FAILED)
    await conductor_under_test.workflows.restart(workflow_id)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert (workflow.workflow_id, workflow.status) == (workflow_id, WorkflowStatus.RUNNING)
    (row,) = workflow.attempts
    assert (row.snapshot.reference_name, row.snapshot.retry_count) == ("first", 0)
    assert row.snapshot.task_id != first.snapshot.task_id


async def test_W10_unknown_workflow_is_none(conductor_under_test: ConductorUnderTest) -> None:
    assert await conductor_under_test.workflows.read("no-such-workflow") is None


async def test_W23_lost_answer_is_unknown(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    attempt = await poll_one(conductor_under_test, task_type, workflow_id)
    name = conductor_under_test.unique("workflow")
    async with conductor_under_test.losing_answers() as losing:
        workflows = losing.workflows

        async def unheard(effect: Awaitable[object]) -> WorkflowStatus:
            with pytest.raises(OutcomeUnknownError):
                await effect
            return (await workflow_of(conductor_under_test, workflow_id)).status

        definition = {"name": name, "version": 1, "schemaVersion": 2, "ownerEmail": OWNER}
        tasks = [simple(task_type, "only")]
        await unheard(workflows.put_definition({**definition, "timeoutSeconds": 0, "tasks": tasks}))
        await unheard(workflows.start(name, {}))
        await unheard(workflows.decide(workflow_id))
        await unheard(workflows.requeue(task_type))
        await unheard(workflows.release_without_result(attempt))
        assert await unheard(workflows.pause(workflow_id)) is WorkflowStatus.PAUSED
        assert await unheard(workflows.resume(workflow_id)) is WorkflowStatus.RUNNING
        assert await unheard(workflows.terminate(workflow_id, "over")) is WorkflowStatus.TERMINATED
        for again in (workflows.retry, workflows.restart):
            assert await unheard(again(workflow_id)) is WorkflowStatus.RUNNING
            await conductor_under_test.workflows.terminate(workflow_id, "over")
        (row,) = (await workflow_of(conductor_under_test, workflow_id)).attempts
        rerun = workflows.rerun(workflow_id, row.snapshot.task_id)
        assert await unheard(rerun) is WorkflowStatus.RUNNING
    # The start whose answer was lost has a row of its own, beside the one of the rerun.
    taken = [await poll_one(conductor_under_test, task_type, workflow_id) for _ in range(2)]
    assert len({attempt.snapshot.workflow_id for attempt in taken} - {workflow_id}) == 1


def runs_child(child: str, reference: str, inputs: dict[str, object]) -> dict[str, object]:
    """A task that is a workflow of its own."""
    runs = {"name": child, "version": 1}
    return system("SUB_WORKFLOW", reference, subWorkflowParam=runs, inputParameters=inputs)


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


async def test_W28_definition_is_read(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(conductor_under_test, simple(task_type, "one"))
    await conductor_under_test.workflows.put_definition(
        {**_definition_of(task_type, "two"), "name": name, "version": 2}
    )
    found = await conductor_under_test.workflows.read_definition(name)
    assert found is not None
    assert (found["name"], found["version"]) == (name, 2)
    (task,) = (as_object(each) for each in as_list(found["tasks"]))
    assert (task["name"], task["taskReferenceName"]) == (task_type, "two")
    assert as_object(task["inputParameters"]) == {"given": "${workflow.input.x}"}
    unknown = conductor_under_test.unique("unknown")
    assert await conductor_under_test.workflows.read_definition(unknown) is None


async def test_W30_definitions_are_listed(conductor_under_test: ConductorUnderTest) -> None:
    task_type, workflows = await define_task(conductor_under_test), conductor_under_test.workflows
    names = [
        await define_workflow(conductor_under_test, simple(task_type, "one")) for _ in range(2)
    ]
    again = {**_definition_of(task_type, "two"), "name": names[0], "version": 2}
    await workflows.put_definition(again)
    found = [each for each in await workflows.list_definitions() if each["name"] in names]
    assert {(each["name"], each["version"]) for each in found} == {(names[0], 2), (names[1], 1)}
    tasks = {str(each["name"]): as_list(each["tasks"]) for each in found}
    for name in names:
        definition = await workflows.read_definition(name)
        assert definition is not None
        assert tasks[name] == definition["tasks"]


def _definition_of(task_type: str, reference: str) -> dict[str, object]:
    tasks = [simple(task_type, reference, {"given": "${workflow.input.x}"})]
    return {"schemaVersion": 2, "ownerEmail": OWNER, "tasks": tasks}


@pytest.mark.parametrize("approved", [True, False])
async def test_W29_human(conductor_under_test: ConductorUnderTest, *, approved: bool) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(
        conductor_under_test,
        system("HUMAN", "approve", inputParameters={"rows": "${workflow.input.rows}"}),
        simple(task_type, "behind", {"by": "${approve.output.by}"}),
    )
    workflow_id = await conductor_under_test.workflows.start(name, {"rows": 3})
    await conductor_under_test.nudge(workflow_id)
    (row,) = (await workflow_of(conductor_under_test, workflow_id)).attempts
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS
    assert row.input_data["rows"] == 3
    if approved:
        await finish(conductor_under_test, row, output={"by": "an editor"})
        behind = await poll_one(conductor_under_test, task_type, workflow_id)
        assert behind.input_data == {"by": "an editor"}
    else:
        refused = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        await finish(conductor_under_test, row, refused, reason="the totals are wrong")
        assert await reaches(conductor_under_test, workflow_id, WorkflowStatus.FAILED)
        reason = (await workflow_of(conductor_under_test, workflow_id)).reason or ""
        assert "the totals are wrong" in reason
