"""Modules that cannot be loaded: each mistake is one line of cause, the author's line, a remedy."""

import sys
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Module, Run

HEAD = """from collections.abc import Callable
from pathlib import Path
from pydantic import BaseModel
from perago import RetryPolicy, TaskControls, WorkspaceSpec, require_glob, task
class P(BaseModel):
    n: int
"""
BODY = "def f(workspace: Path, params: P) -> P: return params\n"
NAMED = "name='x', owner_email='o'"


@pytest.mark.parametrize(
    ("keywords", "said", "code"),
    [
        (
            "workspace=WorkspaceSpec(prefix='data/')",
            (
                "WorkspaceSpec: prefix: WorkspaceSpec.prefix must stay inside the repository,"
                " found 'data/'"
            ),
            "PRG-T015",
        ),
        (
            "workspace=WorkspaceSpec(prefx='data')",
            "WorkspaceSpec: prefx: there is no such field; did you mean prefix",
            "PRG-T001",
        ),
        (
            "workspace=WorkspaceSpec(q=1)",
            (
                "WorkspaceSpec: q: there is no such field; known: prefix, pre, post, read_only,"
                " isolation, checks"
            ),
            "PRG-T001",
        ),
        (
            "workspace=WorkspaceSpec(pre=[require_glob('*', min_count=-1)])",
            "WorkspaceGuardrail: min_count: Input should be greater than or equal to 0, found -1",
            "PRG-T001",
        ),
        (
            "workspace=WorkspaceSpec(pre=[require_glob('*', min_count=2, max_count=1)])",
            "WorkspaceGuardrail: guardrail min_count must be <= max_count",
            "PRG-T016",
        ),
        (
            "controls=TaskControls(retry=RetryPolicy(count=99, logic='NONE'))",
            (
                "RetryPolicy: count: Input should be less than or equal to 10, found 99; logic:"
                " Input should be 'FIXED', 'EXPONENTIAL_BACKOFF' or 'LINEAR_BACKOFF', found 'NONE'"
            ),
            "PRG-T001",
        ),
    ],
    ids=["prefix", "misspelt", "unknown", "negative", "bounds", "two at once"],
)
def test_a_refused_declaration_is_one_line_with_file_and_line_number(
    project: Path, run: Run, keywords: str, said: str, code: str
) -> None:
    (project / "refused.py").write_text(f"{HEAD}@task({NAMED}, {keywords})\n{BODY}")
    ran = run("check", "refused")
    assert (ran.code, ran.out) == (1, "")
    error, place, remedy = ran.err.splitlines()
    assert error == f"error: {said}"
    assert place == f"  at {project / 'refused.py'}:7"
    assert remedy.startswith(f"  {code}: ")


@pytest.mark.parametrize("command", ["check", "register"])
def test_a_placeholder_that_no_param_fills_is_refused_with_file_and_line_number(
    project: Path, run: Run, command: str
) -> None:
    body = "def f(workspace: Path, params: P) -> P: ...\n"
    declared = "workspace=WorkspaceSpec(prefix='songs/{params.sing}')"
    (project / "refused.py").write_text(f"{HEAD}@task({NAMED}, {declared})\n{body}")
    ran = run(command, "refused")
    assert (ran.code, ran.out) == (1, "")
    error, line, remedy = ran.err.splitlines()
    assert error.startswith("error: WorkspaceSpec.prefix names {params.sing}, but P has no such")
    assert line == f"  at {project / 'refused.py'}:7"
    assert remedy.startswith("  PRG-T023: `perago check MODULE`")


def test_the_error_of_a_missing_module_names_the_folder_and_a_similar_module(
    project: Path, run: Run, module: Module
) -> None:
    module("features")
    ran = run("check", "feature")
    assert (ran.code, ran.out) == (1, "")
    error, looked, remedy = ran.err.splitlines()
    assert error == (
        "error: feature cannot be imported: ModuleNotFoundError: No module named 'feature'"
    )
    assert looked == f"  looked in the current directory, {project}; did you mean features"
    assert remedy.startswith("  PRG-T020: `perago check MODULE` finds a module from the directory")


@pytest.mark.parametrize("name", ["package.absent", "absent.package.module"])
def test_a_missing_part_of_a_dotted_name_is_reported_as_a_missing_module(
    project: Path, run: Run, name: str
) -> None:
    (project / "package").mkdir()
    (project / "package/__init__.py").touch()
    ran = run("check", name)
    assert "PRG-T020" in ran.err
    assert f"current directory, {project}\n" in ran.err


def test_a_file_name_is_refused_before_anything_is_imported(
    project: Path, run: Run, module: Module
) -> None:
    module("as_file")
    ran = run("check", "as_file.py")
    assert ran.err.startswith("error: module target must be a Python import path, not a file path")
    assert "as_file" not in sys.modules
    assert project.is_dir()


def test_a_module_that_exits_is_reported_as_one_that_cannot_be_imported(
    project: Path, run: Run
) -> None:
    (project / "script.py").write_text("import sys\nsys.exit(0)\n")
    ran = run("check", "script")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: script cannot be imported: SystemExit: 0\n")
    assert "sys.exit(0)" in ran.err


def test_a_failing_library_is_shown_by_the_lines_that_called_it(project: Path, run: Run) -> None:
    (project / "calls.py").write_text("import json\njson.loads('{')\n")
    ran = run("check", "calls")
    frames = [line for line in ran.err.splitlines() if line.startswith("  File")]
    assert frames == [f'  File "{project / "calls.py"}", line 2, in <module>']


def test_the_first_line_of_a_long_message_is_the_cause(project: Path, run: Run) -> None:
    (project / "foreign.py").write_text(
        "from pydantic import BaseModel\nclass Foreign: ...\nclass P(BaseModel):\n    a: Foreign\n"
    )
    ran = run("check", "foreign")
    assert ran.err.startswith(
        "error: foreign cannot be imported: pydantic.errors.PydanticSchemaGenerationError: Unable"
    )
    assert "errors.pydantic.dev" not in ran.err
    assert "site-packages" not in ran.err


@pytest.mark.parametrize(
    ("models", "field"),
    [
        ("class P(BaseModel):\n    call: Callable[[], int]\n", "P.call"),
        (
            (
                "class In(BaseModel):\n    call: Callable[[], int]\n"
                "class P(BaseModel):\n    parts: list[In]\n"
            ),
            "In.call",
        ),
    ],
    ids=["own", "nested"],
)
def test_a_field_without_a_json_form_is_named(
    project: Path, run: Run, models: str, field: str
) -> None:
    text = f"{HEAD}{models}@task({NAMED})\ndef f(params: P) -> P: return params\n"
    name = f"without_schema_of_{field.replace('.', '_')}"
    (project / f"{name}.py").write_text(text)
    ran = run("check", name)
    assert (ran.code, ran.out) == (1, "")
    error, remedy = ran.err.splitlines()
    assert error.startswith(f"error: {field} cannot be described in JSON: Cannot generate")
    assert remedy.startswith("  PRG-T021: ")
