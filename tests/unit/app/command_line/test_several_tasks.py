"""A module that declares several tasks: which commands take all of them, and which ask for one."""

import json
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Module, Run

from perago.app.runs.finish import BUILT_IN

TWO = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task


class Number(BaseModel):
    number: int = 1


@task(name="two.write", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="x"))
def write(workspace: Path, params: Number) -> Number:
    (workspace / "out.txt").write_text(str(params.number))
    return params


@task(name="two.double", owner_email="data@example.com")
def double(params: Number) -> Number:
    return Number(number=params.number * 2)
"""


@pytest.fixture
def two(project: Path) -> str:
    (project / "two_tasks.py").write_text(TWO)
    return "two_tasks"


def test_check_takes_every_task_of_every_module(run: Run, two: str, module: Module) -> None:
    ran = run("check", two, module("a_third"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[:3] == ["ok: two.write", "ok: two.double", "ok: a_third"]


def test_register_takes_every_task_of_a_module(project: Path, run: Run, two: str) -> None:
    (project / ".env").write_text("PERAGO_CONDUCTOR=memory:\n")
    ran = run("register", two, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    names = ["two.write", "two.double", *(task.name for task in BUILT_IN)]
    assert ran.out.splitlines() == [f"would be created: {name}" for name in names]


def test_start_asks_for_the_services_of_every_task(project: Path, run: Run, two: str) -> None:
    (project / ".env").write_text("PERAGO_CONDUCTOR=memory:\n")
    ran = run("start", two)
    assert ran.code == 1
    assert ran.err.startswith("error: LakeFS config is required for workspace tasks\n")


@pytest.mark.parametrize(
    ("name", "number"), [("two.double", 6), ("two.write", 3)], ids=["double", "write"]
)
def test_run_takes_the_task_that_is_named(run: Run, two: str, name: str, number: int) -> None:
    Path("ws").mkdir()
    place = ["--workspace", "ws"] if name == "two.write" else []
    ran = run("run", two, "--task", name, *place, "--params", '{"number": 3}', "--json")
    assert ran.document["task"] == name
    assert ran.document["result"] == {"number": number}


@pytest.mark.parametrize("command", [["run"], ["extract", "-o", "out.json"]], ids=lambda c: c[0])
def test_a_command_for_one_task_names_the_tasks_and_the_option(
    run: Run, two: str, command: list[str]
) -> None:
    ran = run(*command, two)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[0] == (
        "error: two_tasks declares more than one Perago task: two.write, two.double;"
        " choose one with --task two.write"
    )
    assert "PRG-T014" in ran.err


def test_the_error_of_an_unknown_task_name_lists_the_tasks(run: Run, two: str) -> None:
    ran = run("run", two, "--task", "two.triple")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == (
        "error: two_tasks declares no task two.triple; --task expects one of: two.write, two.double"
    )


def test_extract_writes_the_task_that_is_named(run: Run, two: str) -> None:
    ran = run("extract", two, "--task", "two.double", "-o", "out.json")
    assert (ran.code, ran.out) == (0, "out.json\n")
    assert json.loads(Path("out.json").read_text())["name"] == "two.double"


def test_one_name_twice_in_a_module_is_refused(project: Path, run: Run) -> None:
    (project / "twice.py").write_text(TWO.replace("two.double", "two.write"))
    ran = run("check", "twice")
    assert ran.code == 1
    assert ran.err.startswith("error: twice declares the task two.write twice\n")


def test_dev_takes_every_task_of_a_module(project: Path, run: Run, two: str) -> None:
    def step(name: str, given: dict[str, object]) -> dict[str, object]:
        return {
            "name": name,
            "taskReferenceName": name.replace(".", "_"),
            "type": "SIMPLE",
            "inputParameters": {"params": {}, **given},
        }

    tasks = [
        step("two.write", {"workspace": "${workflow.input.workspace}"}),
        step("two.double", {}),
    ]
    flow = {"name": "both", "version": 1, "schemaVersion": 2, "tasks": tasks}
    (project / "flow.json").write_text(json.dumps(flow))
    ran = run("dev", "flow.json", two, "--once")
    assert (ran.code, ran.err) == (0, "")
    assert "workflow both COMPLETED" in ran.out
