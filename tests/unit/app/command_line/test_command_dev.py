"""`perago dev` on bad input: what is wrong, by the name of the option, and never a traceback."""

import json
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Module, Run

from perago.testing import sequence


@pytest.fixture
def target(project: Path, module: Module) -> str:
    step: dict[str, object] = {"name": "told", "taskReferenceName": "told", "type": "SIMPLE"}
    step["inputParameters"] = {"params": {}}
    flow = {**sequence("flow"), "tasks": [step]}
    (project / "flow.json").write_text(json.dumps(flow))
    return module("told")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected a workflow definition, an object with name and tasks"),
        ('{"tasks": [{}]}', "expected a workflow definition, an object with name and tasks"),
        ('{"name": "x"}', "expected a workflow definition, an object with name and tasks"),
        ("{", "Expecting property name"),
    ],
)
def test_a_file_that_is_no_workflow_definition_is_refused(
    run: Run, target: str, text: str, said: str
) -> None:
    Path("flow.json").write_text(text)
    ran = run("dev", "flow.json", target, "--once")
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--files", "nowhere"], "--files: nowhere is not a directory"),
        (["--input", "[1]"], "--input expects a JSON object such as"),
        (["--input", "absent.json"], "--input expects a JSON object such as"),
        (
            ["--input", "events_keep.minimum=3"],
            """write --input '{"params": {"events_keep": {"minimum": 3}}}'\n""",
        ),
        (
            ["--input", "params.events_keep.minimum=3"],
            """write --input '{"params": {"events_keep": {"minimum": 3}}}'\n""",
        ),
        (["--input", "day=today"], """write --input '{"day": "today"}'\n"""),
        (["--policy", "best"], "'best' is not one of 'auto', 'head-parent', 'lineage', 'settled'"),
        (["--fault", "zomby"], "no fault is called 'zomby'; expected one of crash"),
    ],
    ids=str,
)
def test_the_error_of_an_invalid_option_names_the_option(
    run: Run, target: str, options: list[str], said: str
) -> None:
    ran = run("dev", "flow.json", target, "--once", *options)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_workflow_that_waits_for_the_task_of_another_module_says_so(
    run: Run, target: str, module: Module
) -> None:
    assert target == "told"
    ran = run("dev", "flow.json", module("another"), "--once")
    assert ran.code == 1
    assert "the workflow waits for the task told, and the modules declare another" in ran.out


def test_a_workflow_that_is_no_file_ends_at_once_and_serves_no_page(run: Run) -> None:
    ran = run("dev", "missing.json", "words")
    assert ran.code == 2
    assert ran.out == ""
    assert "error: missing.json is not a file; perago workflow new MODULE writes one" in ran.err
