"""Definitions of workflows: what flows where, and which forks are refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import (
    BEGIN,
    FINISH,
    JOIN,
    child_definition,
    fork_definitions,
    sequence_definition,
)
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.runs.finish import BUILT_IN
from perago.domain.errors import TaskDefinitionError
from perago.domain.run import OnMoved


class Model(BaseModel):
    """Params and result."""

    song: str = "a"


def _with(workspace: Path, params: Model) -> Model:
    del workspace
    return params


def _without(params: Model) -> Model:
    return params


Isolation = Literal["branch", "prefix"]


def declared(
    name: str, prefix: str = "/", isolation: Isolation = "branch", *, read_only: bool = False
) -> TaskDefinition:
    spec = WorkspaceSpec(prefix=prefix, isolation=isolation, read_only=read_only)
    return TaskDefinition(name, "me@example.com", _with, Model, Model, workspace=spec)


def free(name: str) -> TaskDefinition:
    return TaskDefinition(name, "me@example.com", _without, Model, Model)


def inputs_of(definition: Mapping[str, object]) -> dict[str, Any]:
    rows = cast("list[dict[str, Any]]", definition["tasks"])
    return {row["taskReferenceName"]: row.get("inputParameters") for row in rows}


def test_each_task_of_a_sequence_starts_from_the_workspace_of_the_one_before() -> None:
    definition = sequence_definition("w", [declared("x.a"), free("mail"), declared("b-c")])
    assert inputs_of(definition) == {
        "x_a": {
            "workspace": "${workflow.input.workspace}",
            "params": "${workflow.input.params.x_a}",
        },
        "mail": {"params": "${workflow.input.params.mail}"},
        "b_c": {"workspace": "${x_a.output.workspace}", "params": "${workflow.input.params.b_c}"},
    }
    assert definition["ownerEmail"] == "me@example.com"


def test_a_task_that_is_there_twice_has_two_reference_names() -> None:
    definition = sequence_definition("w", [declared("a"), declared("a")])
    assert inputs_of(definition)["a_2"]["workspace"] == "${a.output.workspace}"


def test_every_branch_of_a_fork_is_a_workflow_of_its_own() -> None:
    tasks = [declared("a", "a", "prefix"), declared("b", "b", "prefix"), free("c")]
    fork, *children = fork_definitions("w", tasks)
    rows = cast("list[dict[str, Any]]", fork["tasks"])
    assert [row["type"] for row in rows] == ["FORK_JOIN", "JOIN", "SIMPLE"]
    branches = [branch for (branch,) in rows[0]["forkTasks"]]
    assert {branch["type"] for branch in branches} == {"SUB_WORKFLOW"}
    assert [branch["subWorkflowParam"]["name"] for branch in branches] == [
        child["name"] for child in children
    ]
    assert rows[1]["joinOn"] == ["a", "b", "c"]
    assert rows[2]["inputParameters"]["params"]["workspaces"] == [
        "${a.output.workspace}",
        "${b.output.workspace}",
    ]
    assert cast("dict[str, str]", fork["outputParameters"])["workspace"] == (
        "${joined.output.result.workspace}"
    )
    assert inputs_of(children[0]) == {
        "a": {"workspace": "${workflow.input.workspace}", "params": "${workflow.input.params}"}
    }


def test_one_workspace_needs_no_join_of_workspaces() -> None:
    fork, *_ = fork_definitions("w", [declared("a"), free("b")])
    assert len(cast("list[object]", fork["tasks"])) == 2
    assert cast("dict[str, str]", fork["outputParameters"])["workspace"] == (
        "${a.output.workspace}"
    )


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (declared("a", "x"), declared("b", "y"), 'isolation="branch"'),
        (declared("a", "x", "prefix"), declared("b", "y"), 'b has isolation="branch"'),
        (declared("a", "x", "prefix"), declared("b", "x", "prefix"), "need two folders"),
        (declared("a", "x", "prefix"), declared("b", "x/y", "prefix"), "need two folders"),
        (declared("a", "/", "prefix"), declared("b", "y", "prefix"), "need two folders"),
        (declared("a", "x", "prefix"), declared("b", "x2", "prefix"), None),
        (declared("a", "x/{params.song}", "prefix"), declared("b", "x", "prefix"), None),
        (declared("a", "x"), declared("b", "y", read_only=True), None),
        (declared("a", "x"), free("b"), None),
    ],
)
def test_writers_that_would_be_in_the_way_of_each_other_are_refused(
    one: TaskDefinition, other: TaskDefinition, said: str | None
) -> None:
    if said is None:
        assert len(fork_definitions("w", [one, other])) == 3
        return
    with pytest.raises(TaskDefinitionError) as caught:
        fork_definitions("w", [one, other])
    assert said in str(caught.value)
    assert caught.value.code == "PRG-T024"


NAMES = st.lists(st.sampled_from(["a", "a.b", "a-b", "join"]), min_size=1, max_size=5)


@given(NAMES, st.booleans(), st.booleans())
def test_whatever_the_tasks_every_expression_names_a_step_before_it(
    names: list[str],
    side_by_side: bool,  # noqa: FBT001  # drawn
    transaction: bool,  # noqa: FBT001  # drawn
) -> None:
    """References are unique, and nothing refers to a step that stands behind or is not there."""
    tasks = [declared(name, read_only=True) for name in names]
    if side_by_side:
        definitions = fork_definitions("w", tasks, transaction=transaction)
    else:
        definitions = [sequence_definition("w", tasks, transaction=transaction)]
    for definition in definitions:
        known = {"workflow"}
        for row in cast("list[dict[str, Any]]", definition["tasks"]):
            inner = [each for (each,) in row.get("forkTasks", [])]
            for each in [row, *inner]:
                text = json.dumps(each.get("inputParameters", {}))
                used = {part.split(".")[0] for part in text.split("${")[1:]}
                assert used <= known
            references = [each["taskReferenceName"] for each in [row, *inner]]
            assert known.isdisjoint(references)
            known |= {*references}
    assert len({definition["name"] for definition in definitions}) == len(definitions)


def test_the_branch_of_a_dynamic_fork_takes_one_item() -> None:
    child = child_definition("one", declared("songs.count", "songs/{params.song}", "prefix"))
    assert child["outputParameters"] == {
        "workspace": "${songs_count.output.workspace}",
        "result": "${songs_count.output.result}",
    }


def test_a_transaction_is_one_run_around_all_tasks() -> None:
    definition = sequence_definition("w", [declared("a"), declared("b")], transaction=True)
    inputs = inputs_of(definition)
    assert list(inputs) == ["perago_begin", "a", "b", "perago_finish"]
    assert inputs["perago_begin"]["params"] == {
        "repository": "${workflow.input.workspace.repository}",
        "branch": "${workflow.input.workspace.branch}",
        "ref": "${workflow.input.workspace.ref}",
    }
    assert inputs["a"]["workspace"] == "${perago_begin.output.result.workspace}"
    assert inputs["perago_finish"]["params"] == {
        "run": "${perago_begin.output.result.run}",
        "workspace": "${b.output.workspace}",
    }
    assert definition["outputParameters"] == {
        "workspace": "${perago_finish.output.result.workspace}",
        "result": "${b.output.result}",
    }


@pytest.mark.parametrize("on_moved", OnMoved)
def test_a_transaction_says_what_finish_does_where_the_target_has_moved(on_moved: OnMoved) -> None:
    tasks = [declared("a", "a", "prefix"), declared("b", "b", "prefix")]
    sequence = sequence_definition("w", tasks, transaction=True, on_moved=on_moved)
    fork, *_ = fork_definitions("w", tasks, transaction=True, on_moved=on_moved)
    for definition in (sequence, fork):
        assert inputs_of(definition)["perago_finish"]["params"]["on_moved"] == on_moved


def test_a_fork_in_a_transaction_is_finished_with_the_joined_workspace() -> None:
    tasks = [declared("a", "a", "prefix"), declared("b", "b", "prefix")]
    fork, *_ = fork_definitions("w", tasks, transaction=True)
    inputs = inputs_of(fork)
    assert list(inputs) == ["perago_begin", "fork", "join", "joined", "perago_finish"]
    assert inputs["perago_finish"]["params"]["workspace"] == "${joined.output.result.workspace}"
    branch = cast("list[dict[str, Any]]", fork["tasks"])[1]["forkTasks"][0][0]
    assert branch["inputParameters"]["workspace"] == "${perago_begin.output.result.workspace}"
    assert cast("dict[str, str]", fork["outputParameters"])["workspace"] == (
        "${perago_finish.output.result.workspace}"
    )


def test_the_built_in_tasks_have_the_names_that_definitions_give_them() -> None:
    assert {task.name for task in BUILT_IN} == {JOIN, BEGIN, FINISH}
