"""What `--params` of `perago submit` says, and what the tasks of a workflow would not take."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perago import build_taskdef, task
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.authoring.task_declaration import task_of
from perago.app.authoring.workflow_definition import fork_definitions, sequence_definition
from perago.app.command_line.params import check_params, complete_params, merged_params
from perago.app.command_line.reporting import CommandUsageError
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import (
    AccessDeniedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)
from perago.ports.installations import ConductorInstallation


@pytest.mark.parametrize(
    ("texts", "merged"),
    [
        ([], {}),
        (["a.b=1"], {"a": {"b": "1"}}),
        (["a.b=x=y"], {"a": {"b": "x=y"}}),
        (["a="], {"a": ""}),
        (["a.b=[1, 2]"], {"a": {"b": [1, 2]}}),
        (['a.b="1"'], {"a": {"b": "1"}}),
        (['{"a": {"b": 1, "c": 2}}', "a.b=3"], {"a": {"b": "3", "c": 2}}),
        (["a.b=1", "a.c=2", "a=x"], {"a": "x"}),
    ],
)
def test_params_of_several_options_are_merged(
    texts: list[str], merged: Mapping[str, object]
) -> None:
    assert merged_params(texts) == merged


def test_params_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    path.write_text('{"a": {"b": 1}}')
    assert merged_params([f"@{path}", "a.c=2"]) == {"a": {"b": 1, "c": "2"}}


WORDS = st.text("abc_", min_size=1, max_size=4)
TREES = st.dictionaries(WORDS, st.dictionaries(WORDS, st.text("xyz .=", max_size=5), max_size=3))


@given(TREES)
def test_words_and_json_say_the_same(params: dict[str, dict[str, str]]) -> None:
    words = [
        f"{name}.{field}={value}"
        for name, inner in params.items()
        for field, value in inner.items()
    ]
    spelled = {name: inner for name, inner in params.items() if inner}
    assert merged_params(words) == spelled
    assert merged_params([json.dumps(params), *words]) == params


def test_a_task_without_params_gets_an_empty_object_and_a_list_is_left_alone() -> None:
    tasks = [
        {"inputParameters": {"params": "${workflow.input.params.clean}"}},
        {"inputParameters": {"params": {"songs": "${workflow.input.params.songs}"}}},
    ]
    assert complete_params({"name": "w", "tasks": tasks}, {}) == {"clean": {}}
    everything = {"name": "w", "tasks": [{"inputParameters": {"all": "${workflow.input}"}}]}
    assert complete_params(everything, {"x": 1}) == {"x": 1}


class Params(BaseModel):
    """Two fields without a default, of which one takes null."""

    least: int
    note: str | None
    most: int = 3


class Result(BaseModel):
    """What came of it."""

    rows: int


@task(name="team.clean", owner_email="team@example.org")
def clean(params: Params) -> Result:
    return Result(rows=params.least)


class Dotted(BaseModel):
    """A field whose name in JSON has a dot."""

    size: int = Field(alias="a.b")


@task(name="team.dotted", owner_email="team@example.org")
def measure(params: Dotted) -> Result:
    return Result(rows=params.size)


CLEAN = task_of(clean)
WHOLE = "${workflow.input.params.team_clean}"
PARTS = {
    "least": "${workflow.input.params.from.least}",
    "note": "${workflow.input.params.note}",
    "most": "${workflow.input.params.most}",
}


@pytest.fixture
async def conductor() -> ConductorInstallation:
    """A Conductor that knows the task."""
    conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
    await conductor.definitions.put(build_taskdef(CLEAN))
    await conductor.definitions.put(build_taskdef(task_of(measure)))
    return conductor


def row(params: object = WHOLE, **more: object) -> dict[str, object]:
    """The row of a definition that runs the task."""
    given = {"name": "team.clean", "taskReferenceName": "clean", "type": "SIMPLE"}
    return {**given, "inputParameters": {"params": params}, **more}


def of(*rows: object) -> dict[str, object]:
    """A definition with these rows."""
    return {"name": "w", "version": 1, "tasks": list(rows)}


def switch(*rows: object) -> dict[str, object]:
    """A row behind which these run in one case."""
    return {"name": "s", "type": "SWITCH", "decisionCases": {"yes": list(rows)}}


def within(given: str, *rows: object) -> dict[str, object]:
    """A row that is a workflow of its own, whose definition stands in it."""
    runs = {"name": "inner", "version": 1, "workflowDefinition": of(*rows)}
    return {
        "name": "inner",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": runs,
        "inputParameters": {"params": given},
    }


END = {"name": "e", "type": "TERMINATE", "inputParameters": {"terminationStatus": "COMPLETED"}}
LOOK = {"name": "l", "type": "INLINE", "inputParameters": {"at": "${workflow.input.params.mosts}"}}
ALL = "${workflow.input.params}"


@pytest.mark.parametrize(
    ("definition", "params", "options"),
    [
        (of(row()), {}, "team_clean.least team_clean.note"),
        (of(row()), {"team_clean": {"note": None}}, "team_clean.least"),
        (of(row(ALL)), {"note": "x"}, "least"),
        (of(row("${workflow.input.params.a.b}")), {"a": {}}, "a.b.least a.b.note"),
        (of(row(PARTS)), {}, "from.least"),
        (of(row(), switch(row())), {"team_clean": {"least": 1}}, "team_clean.note"),
        (of(row(), row()), {"team_clean": {"least": 1}}, "team_clean.note"),
        (sequence_definition("w", [CLEAN]), {}, "team_clean.least team_clean.note"),
    ],
    ids=[
        "nothing",
        "one of two",
        "all params are those of one task",
        "deeper",
        "field by field",
        "before a switch",
        "twice the same ones",
        "as perago writes it",
    ],
)
async def test_a_field_that_nothing_gives_is_missing(
    conductor: ConductorInstallation,
    definition: Mapping[str, object],
    params: Mapping[str, object],
    options: str,
) -> None:
    with pytest.raises(CommandUsageError) as refused:
        await check_params(conductor, definition, params)
    fields = ", ".join(each.rpartition(".")[2] for each in options.split())
    wanted = " ".join(f"--params {each}=VALUE" for each in options.split())
    assert str(refused.value) == (
        f"team.clean needs {fields}, says the TaskDef on Conductor; add {wanted}"
        " (if the code has a default, run `perago register` first)"
    )


@pytest.mark.parametrize(
    ("definition", "params"),
    [
        (of(row()), {"team_clean": {"least": "1", "note": None}}),
        (of(row()), {"team_clean": "as text"}),
        (of(row()), {"team_clean": {"second_name_of_least": 1}}),
        (of(row(name="team.dotted")), {"team_clean": {"a.b": 1}}),
        (of(row(PARTS)), {"from": {"least": 1}}),
        (of(row(PARTS)), {"from": "as text"}),
        (of(row({"least": 1, "note": None})), {}),
        (of(row({"least": "${other.output.result.rows}"})), {}),
        (of(row("${other.output.result}")), {}),
        (of(row(name="team.unknown")), {}),
        (of(row(type="DYNAMIC", dynamicTaskNameParam="task")), {}),
        (of(within("${workflow.input.params.leats}", row(ALL))), {"leats": {}}),
        (of(row(ALL), LOOK), {"least": 1, "note": None, "mosts": 2}),
        (of(row(optional=True)), {}),
        (of(switch(row())), {}),
        (of(switch(END), row()), {}),
        (of(END, row()), {}),
    ],
    ids=[
        "all that is needed",
        "no object",
        "perhaps under a second name",
        "a name with a dot",
        "null where the field takes it",
        "no object above",
        "said by the definition",
        "from another task",
        "all from another task",
        "a task without a TaskDef",
        "the name of another task stands in the input",
        "a workflow within this one has other params",
        "a field of one is read by another",
        "an optional task",
        "a task that one case runs",
        "behind a case that ends the workflow",
        "behind the end",
    ],
)
async def test_what_may_work_is_not_refused(
    conductor: ConductorInstallation,
    definition: Mapping[str, object],
    params: Mapping[str, object],
) -> None:
    await check_params(conductor, definition, params)


async def test_each_row_of_a_task_needs_its_own_params(conductor: ConductorInstallation) -> None:
    twice = sequence_definition("w", [CLEAN, CLEAN])
    with pytest.raises(CommandUsageError) as refused:
        await check_params(conductor, twice, {"team_clean": {"note": ""}})
    assert str(refused.value).startswith(
        "team.clean needs least, note, says the TaskDef on Conductor; add"
        " --params team_clean.least=VALUE"
        " --params team_clean_2.least=VALUE --params team_clean_2.note=VALUE ("
    )


class Counted(TaskDefinitions):
    """TaskDefs that count how often each is read."""

    def __init__(self, definitions: TaskDefinitions) -> None:
        self.definitions, self.reads = definitions, list[str]()

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Count, and ask."""
        self.reads.append(name)
        return await self.definitions.read(name)

    async def put(self, definition: Mapping[str, object]) -> None:
        """As it is."""
        await self.definitions.put(definition)


async def test_the_taskdef_of_many_rows_is_read_once(conductor: ConductorInstallation) -> None:
    counted = Counted(conductor.definitions)
    given = {"team_clean": {"least": 1, "note": ""}}
    await check_params(replace(conductor, definitions=counted), of(row(), row(), row()), given)
    assert counted.reads == ["team.clean"]


async def test_a_field_of_one_task_is_no_slip_for_a_field_of_another(
    conductor: ConductorInstallation, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"properties": {"leasts": {"type": "integer"}}, "required": ["leasts"]}
    schema = {"data": {"properties": {"params": fields}}}
    await conductor.definitions.put({"name": "team.count", "inputSchema": schema})
    both = of(row(ALL), row(ALL, name="team.count"))
    await check_params(conductor, both, {"least": 1, "note": None, "leasts": 2})
    assert capsys.readouterr().err == ""
    with pytest.raises(CommandUsageError, match="did you mean least"):
        await check_params(conductor, both, {"leats": 1})


async def test_a_workflow_of_the_name_of_one_that_stands_in_the_row_is_another_one(
    conductor: ConductorInstallation,
) -> None:
    await conductor.workflows.put_definition({**of(row(ALL)), "name": "inner"})
    other = of(within(WHOLE, row({"least": 1, "note": None})))
    await check_params(conductor, other, {"team_clean": {"leats": 1}})


async def test_a_task_whose_taskdef_has_no_schema_is_left_to_the_worker(
    conductor: ConductorInstallation,
) -> None:
    await conductor.definitions.put({"name": "team.clean"})
    await check_params(conductor, of(row()), {})


class Closed(TaskDefinitions):
    """TaskDefs that are not told."""

    def __init__(self, error: ServiceError) -> None:
        self.error = error

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Refuse."""
        del name
        raise self.error

    async def put(self, definition: Mapping[str, object]) -> None:
        """Nothing here stores one."""


@pytest.mark.parametrize(
    "error", [AccessDeniedError("403"), RequestRefusedError("400")], ids=["the key", "the name"]
)
async def test_a_taskdef_that_cannot_be_read_is_left_to_the_worker(
    conductor: ConductorInstallation, error: ServiceError
) -> None:
    closed = replace(conductor, definitions=Closed(error))
    await check_params(closed, of(row()), {})


async def test_a_conductor_that_is_away_is_no_reason_to_start_unchecked(
    conductor: ConductorInstallation,
) -> None:
    away = replace(conductor, definitions=Closed(UnavailableError("no route")))
    with pytest.raises(UnavailableError):
        await check_params(away, of(row()), {})


@pytest.mark.parametrize(
    "fields",
    [
        {"properties": {"at": {"type": "null"}}, "required": ["at"]},
        {"properties": {"at": {"type": ["integer", "null"]}}, "required": ["at"]},
        {"properties": {"at": {"type": "integer"}}, "required": None},
    ],
    ids=["null alone", "several types", "no list of them"],
)
async def test_a_schema_of_others_is_not_taken_for_more_than_it_says(
    conductor: ConductorInstallation, fields: Mapping[str, object]
) -> None:
    schema = {"data": {"properties": {"params": fields}}}
    await conductor.definitions.put({"name": "team.clean", "inputSchema": schema})
    await check_params(conductor, of(row({"at": "${workflow.input.params.at}"})), {})


async def test_a_task_that_a_child_workflow_can_do_without_is_not_asked_for(
    conductor: ConductorInstallation,
) -> None:
    await conductor.workflows.put_definition({**of(row(ALL, optional=True)), "name": "inner"})
    parent = {"name": "inner", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "inner"}}
    await check_params(conductor, of({**parent, "inputParameters": {"params": WHOLE}}), {})


async def test_the_branches_of_a_fork_need_their_params_too(
    conductor: ConductorInstallation,
) -> None:
    fork, branch = fork_definitions("sides", [CLEAN])
    await check_params(conductor, fork, {})  # Conductor does not know the branch
    await conductor.workflows.put_definition(branch)
    with pytest.raises(CommandUsageError, match=r"add --params team_clean\.least=VALUE"):
        await check_params(conductor, fork, {})
    with pytest.raises(CommandUsageError, match="did you mean least"):
        await check_params(conductor, fork, {"team_clean": {"leats": 1, "note": ""}})
    await check_params(conductor, fork, {"team_clean": {"least": 1, "note": ""}})
    # What the older version needs, which the fork starts, is not known.
    await conductor.workflows.put_definition({**branch, "version": 2})
    await check_params(conductor, fork, {})
