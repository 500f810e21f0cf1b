"""Laws of `Workflows`: sequences, the verbs of an operator, and forks that are built to last."""

from collections.abc import Awaitable, Mapping

import pytest

from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.ports.errors import MissingError, OutcomeUnknownError, RequestRefusedError
from perago.testing.contract.conductor_under_test import (
    ConductorScene,
    runs_child,
    simple,
    system,
    workflow_of,
)
from perago.testing.contract.conductor_under_test import scene as scene
from perago.testing.definitions import as_list

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


async def two_tasks(scene: ConductorScene) -> tuple[str, str]:
    """Start a workflow of two tasks; its id and their type."""
    task_type = await scene.define_task()
    tasks = simple(task_type, "first"), simple(task_type, "second")
    name = await scene.define_workflow(*tasks)
    workflow_id = await scene.workflows.start(name, {})
    assert (await scene.workflow_of(workflow_id)).name == name
    return workflow_id, task_type


async def test_W1_sequence(scene: ConductorScene) -> None:
    workflow_id, task_type = await two_tasks(scene)
    for name in ("first", "second"):
        (taken,) = await scene.poll_now(task_type)
        assert taken.snapshot.reference_name == name
        assert await scene.poll_now(task_type) == ()
        await scene.finish(taken, output={"done": name})
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.COMPLETED
    assert workflow.output_data == {"done": "second"}
    assert [row.snapshot.seq for row in workflow.attempts] == [1, 2]


async def test_W2_start_of_unknown_definition(scene: ConductorScene) -> None:
    with pytest.raises(MissingError):
        await scene.workflows.start(scene.unique("unknown"), {})
    known = await scene.define_workflow(simple("any", "only"))
    with pytest.raises(MissingError):
        await scene.workflows.start(known, {}, version=2)


async def test_W3_input_expressions(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    templates = {name: template for name, (template, _) in EXPRESSIONS.items()}
    workflow_id = await scene.start(
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
        workflow_input=WORKFLOW_INPUT,
    )
    first = await scene.poll_one(task_type, workflow_id)
    assert first.input_data == {name: found for name, (_, found) in EXPRESSIONS.items()}
    await scene.finish(first, output={"table": [{"rows": 3}]})
    second = await scene.poll_one(task_type, workflow_id)
    assert second.input_data == {
        "output": {"table": [{"rows": 3}]},
        "part": {"rows": 3},
        "input": None,
        "text": "hello",
        "status": "COMPLETED",
        "task": first.snapshot.task_id,
        "workflow": workflow_id,
    }


async def test_W4_missing_output_is_null(scene: ConductorScene) -> None:
    task_type = await scene.define_task(retryCount=0)
    workflow_id = await scene.start(
        simple(task_type, "first", optional=True),
        simple(task_type, "second", {"workspace": "${first.output.workspace}", "n": 1}),
    )
    await scene.fail(await scene.poll_one(task_type, workflow_id))
    second = await scene.poll_one(task_type, workflow_id)
    assert second.input_data == {"workspace": None, "n": 1}
    first = (await scene.workflow_of(workflow_id)).attempts[0].snapshot
    assert first.status is AttemptStatus.COMPLETED_WITH_ERRORS


async def test_W5_pause_holds_the_next_task(scene: ConductorScene) -> None:
    workflow_id, task_type = await two_tasks(scene)
    await scene.workflows.pause(workflow_id)
    # What was scheduled before the pause is handed out all the same.
    (first,) = await scene.poll_now(task_type)
    await scene.finish(first)
    await scene.nudge(workflow_id)
    assert await scene.poll_now(task_type) == ()
    paused = await scene.workflow_of(workflow_id)
    assert (paused.status, len(paused.attempts)) == (WorkflowStatus.PAUSED, 1)
    await scene.workflows.resume(workflow_id)
    second = await scene.poll_one(task_type, workflow_id)
    assert second.snapshot.reference_name == "second"
    with pytest.raises(RequestRefusedError):
        await scene.workflows.resume(workflow_id)


async def test_W6_terminate_is_idempotent(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    await scene.workflows.terminate(workflow_id, "first reason")
    await scene.workflows.terminate(workflow_id, "second reason")
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "first reason")
    assert await scene.poll_now(task_type) == ()

    failed_id, failed_type = await scene.start_one_task()
    taken = await scene.poll_one(failed_type, failed_id)
    await scene.finish(taken, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    await scene.workflows.terminate(failed_id, "after the fact")
    workflow = await scene.workflow_of(failed_id)
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "after the fact")

    other_id, other_type = await scene.start_one_task()
    await scene.finish(await scene.poll_one(other_type, other_id))
    with pytest.raises(RequestRefusedError):
        await scene.workflows.terminate(other_id, "too late")
    assert (await scene.workflow_of(other_id)).status is WorkflowStatus.COMPLETED


async def test_W7_retry_needs_a_failed_workflow(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    with pytest.raises(RequestRefusedError):
        await scene.workflows.retry(workflow_id)
    await scene.finish(await scene.poll_one(task_type, workflow_id))
    with pytest.raises(RequestRefusedError):
        await scene.workflows.retry(workflow_id)
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, len(workflow.attempts)) == (WorkflowStatus.COMPLETED, 1)


async def test_W8_rerun_needs_a_finished_workflow(scene: ConductorScene) -> None:
    workflow_id, _, taken = await scene.take_one_task()
    with pytest.raises(RequestRefusedError):
        await scene.workflows.rerun(workflow_id, taken.snapshot.task_id)
    assert (await scene.workflow_of(workflow_id)).attempts == (taken,)
    await scene.finish(taken)
    await scene.workflows.rerun(workflow_id, taken.snapshot.task_id)
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.RUNNING
    assert workflow.attempts[0].output_data == {}


async def test_W9_restart_starts_from_the_first_task(scene: ConductorScene) -> None:
    workflow_id, task_type = await two_tasks(scene)
    first = await scene.poll_one(task_type, workflow_id)
    await scene.finish(first)
    second = await scene.poll_one(task_type, workflow_id)
    await scene.finish(second, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    assert await scene.reaches(workflow_id, WorkflowStatus.FAILED)
    await scene.workflows.restart(workflow_id)
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.workflow_id, workflow.status) == (workflow_id, WorkflowStatus.RUNNING)
    (row,) = workflow.attempts
    assert (row.snapshot.reference_name, row.snapshot.retry_count) == ("first", 0)
    assert row.snapshot.task_id != first.snapshot.task_id


async def test_W10_unknown_workflow_is_none(scene: ConductorScene) -> None:
    assert await scene.workflows.read("no-such-workflow") is None
    assert await scene.workflows.read("no/such/workflow") is None


async def test_W23_lost_answer_is_unknown(scene: ConductorScene) -> None:
    workflow_id, task_type, _ = await scene.take_one_task()
    name = scene.unique("workflow")
    async with scene.losing_answers() as losing:
        workflows = losing.workflows

        async def unheard(effect: Awaitable[object]) -> WorkflowStatus:
            with pytest.raises(OutcomeUnknownError):
                await effect
            return (await scene.workflow_of(workflow_id)).status

        definition = workflow_of(name, simple(task_type, "only"))
        await unheard(workflows.put_definition(definition))
        await unheard(workflows.start(name, {}))
        await unheard(workflows.decide(workflow_id))
        await unheard(workflows.requeue(task_type))
        assert await unheard(workflows.pause(workflow_id)) is WorkflowStatus.PAUSED
        assert await unheard(workflows.resume(workflow_id)) is WorkflowStatus.RUNNING
        assert await unheard(workflows.terminate(workflow_id, "over")) is WorkflowStatus.TERMINATED
        for again in (workflows.retry, workflows.restart):
            assert await unheard(again(workflow_id)) is WorkflowStatus.RUNNING
            await scene.workflows.terminate(workflow_id, "over")
        (row,) = (await scene.workflow_of(workflow_id)).attempts
        rerun = workflows.rerun(workflow_id, row.snapshot.task_id)
        assert await unheard(rerun) is WorkflowStatus.RUNNING
    # The start whose answer was lost has a row of its own, beside the one of the rerun.
    taken = [await scene.poll_one(task_type, workflow_id) for _ in range(2)]
    assert len({attempt.snapshot.workflow_id for attempt in taken} - {workflow_id}) == 1


async def test_W26_branch_of_a_sub_workflow_outlives_its_retries(scene: ConductorScene) -> None:
    task_type = await scene.define_task(retryCount=3)
    inner = simple(task_type, "inner", {"n": "${workflow.input.n}"})
    child = await scene.define_workflow(inner)
    branches = [[runs_child(child, side, {"n": side})] for side in ("left", "right")]
    workflow_id = await scene.start(
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "join", joinOn=["left", "right"]),
        simple(task_type, "behind", {"joined": "${join.output.left.of}"}),
    )
    ended: set[str] = set()
    while len(ended) < len(branches):
        taken = await scene.poll_one(task_type, workflow_id)
        side = str(taken.input_data["n"])
        if taken.snapshot.retry_count < 2:
            await scene.fail(taken)
        else:
            await scene.finish(taken, output={"of": side})
            ended.add(side)
        workflow = await scene.workflow_of(workflow_id)
        assert workflow.status is WorkflowStatus.RUNNING, workflow.reason
    behind = await scene.poll_one(task_type, workflow_id)
    assert behind.input_data == {"joined": "left"}
    await scene.finish(behind)
    assert await scene.reaches(workflow_id, WorkflowStatus.COMPLETED)


@pytest.mark.parametrize("is_child", [False, True], ids=["task", "child"])
async def test_W27_dynamic_fork_over_items(scene: ConductorScene, *, is_child: bool) -> None:
    task_type = await scene.define_task()
    inner = simple(task_type, "inner", {"all": "${workflow.input}"})
    child = await scene.define_workflow(inner)
    runs = {"forkTaskWorkflow": child, "forkTaskWorkflowVersion": "1"}
    given: dict[str, object] = {"forkTaskInputs": "${workflow.input.items}"}
    given |= {"forkTaskName": task_type} | (runs if is_child else {})
    items = [{"n": 10}, {"n": 11}, {"n": 12}]
    workflow_id = await scene.start(
        system("FORK_JOIN_DYNAMIC", "fork", inputParameters=given),
        system("JOIN", "join"),
        simple(task_type, "behind", {"joined": "${join.output}"}),
        workflow_input={"items": items},
    )
    found: list[dict[str, object]] = []
    for _ in items:
        taken = await scene.poll_one(task_type, workflow_id)
        read = dict(taken.input_data)
        item = dict(as_mapping(read["all"])) if is_child else read
        found.append(item)
        await scene.finish(taken, output={"of": item["n"]})
    expected = [{"n": 10, "__index": 0}, {"n": 11, "__index": 1}, {"n": 12, "__index": 2}]
    assert sorted(found, key=lambda item: str(item["n"])) == expected
    behind = await scene.poll_one(task_type, workflow_id)
    joined = as_mapping(behind.input_data["joined"])
    outputs = {name: as_mapping(output)["of"] for name, output in joined.items()}
    assert outputs == {f"_{task_type}_{number}": 10 + number for number in range(3)}


async def test_W28_definition_is_read(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "one"))
    # A second version, because only then does the read show that it takes the newest.
    two = simple(task_type, "two", {"given": "${workflow.input.x}"})
    await scene.workflows.put_definition(workflow_of(name, two, version=2))
    found = await scene.workflows.read_definition(name)
    assert found is not None
    assert (found["name"], found["version"]) == (name, 2)
    (task,) = (as_mapping(each) for each in as_list(found["tasks"]))
    assert (task["name"], task["taskReferenceName"]) == (task_type, "two")
    assert as_mapping(task["inputParameters"]) == {"given": "${workflow.input.x}"}
    unknown = scene.unique("unknown")
    assert await scene.workflows.read_definition(unknown) is None


async def test_W30_definitions_are_listed(scene: ConductorScene) -> None:
    task_type, workflows = await scene.define_task(), scene.workflows
    names = [await scene.define_workflow(simple(task_type, "one")) for _ in range(2)]
    two = simple(task_type, "two", {"given": "${workflow.input.x}"})
    await workflows.put_definition(workflow_of(names[0], two, version=2))
    found = [each for each in await workflows.list_definitions() if each["name"] in names]
    assert {(each["name"], each["version"]) for each in found} == {(names[0], 2), (names[1], 1)}
    tasks = {str(each["name"]): as_list(each["tasks"]) for each in found}
    for name in names:
        definition = await workflows.read_definition(name)
        assert definition is not None
        assert tasks[name] == definition["tasks"]


@pytest.mark.parametrize("approved", [True, False])
async def test_W29_human(scene: ConductorScene, *, approved: bool) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(
        system("HUMAN", "approve", inputParameters={"rows": "${workflow.input.rows}"}),
        simple(task_type, "behind", {"by": "${approve.output.by}"}),
        workflow_input={"rows": 3},
    )
    await scene.nudge(workflow_id)
    (row,) = (await scene.workflow_of(workflow_id)).attempts
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS
    assert row.input_data["rows"] == 3
    if approved:
        await scene.finish(row, output={"by": "an editor"})
        behind = await scene.poll_one(task_type, workflow_id)
        assert behind.input_data == {"by": "an editor"}
    else:
        refused = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        await scene.finish(row, refused, reason="the totals are wrong")
        assert await scene.reaches(workflow_id, WorkflowStatus.FAILED)
        reason = (await scene.workflow_of(workflow_id)).reason or ""
        assert "the totals are wrong" in reason
