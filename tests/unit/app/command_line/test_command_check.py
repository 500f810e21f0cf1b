"""`perago check` and `perago extract`: lines, order, warnings, exit codes, JSON."""

import json
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Module, Run

BUDGET = (
    "PublishBudget(observed_merge_p99_seconds=1, safety_margin_seconds=1,"
    " lakefs_merge_timeout_seconds=1000, conductor_completion_timeout_seconds=1,"
    " worker_shutdown_grace_seconds=1, heartbeat_interval_seconds=1)"
)
CONFIGURED = "class Loose(BaseModel):\n    model_config = ConfigDict(extra='allow')\n"


def test_a_valid_module_is_ok_and_the_machine_is_described(
    project: Path, run: Run, module: Module
) -> None:
    ran = run("check", module("features"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "ok: features",
        f"workspace_root: {project.parent / 'workspaces'}",
        f"log_root: {project.parent / 'logs'}",
        "worker_id_prefix: features",
        "conductor: not configured",
        "lakefs: not configured",
        "metrics: not configured",
    ]


def test_check_shows_which_services_are_configured(project: Path, run: Run, module: Module) -> None:
    (project / ".env").write_text(
        "CONDUCTOR_SERVER_URL=http://127.0.0.1:1/api\n"
        "PERAGO_LAKEFS=memory:\n"
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://127.0.0.1:1/v1/metrics\n"
    )
    lines = run("check", module("described")).out.splitlines()
    assert lines[-3:] == ["conductor: configured", "lakefs: configured", "metrics: configured"]


def test_several_modules_are_checked_together(run: Run, module: Module) -> None:
    ran = run("check", module("first_of_two"), module("second_of_two"))
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == ["ok: first_of_two", "ok: second_of_two"]
    assert "worker_id_prefix: firstoftwo, secondoftwo" in ran.out


def test_two_modules_cannot_declare_one_name(run: Run, module: Module) -> None:
    ran = run("check", module("named_a", name="same"), module("named_b", name="same"))
    assert ran.code == 1
    assert ran.err.startswith("error: named_a and named_b both declare the task same\n")
    assert ran.out == ""


def test_json_has_a_schema_with_a_version(run: Run, module: Module) -> None:
    ran = run("check", module("as_json"), "--json")
    assert ran.document["schema"] == "perago.check/1"
    assert ran.document["tasks"] == ["as_json"]
    assert ran.document["lakefs"] == "not configured"


def test_an_error_is_one_line_with_code_and_remedy(run: Run) -> None:
    ran = run("check", "not/a/module")
    assert (ran.code, ran.out) == (1, "")
    error, remedy = ran.err.splitlines()
    assert error == (
        "error: module target must be a Python import path, not a file path or object path"
    )
    assert remedy.startswith("  PRG-T013: `perago check MODULE` takes the name")
    assert remedy.endswith("(perago explain PRG-T013)")


def test_an_error_in_json_has_the_same_facts(run: Run) -> None:
    ran = run("check", "not/a/module", "--json")
    assert ran.code == 1
    assert ran.document["schema"] == "perago.error/1"
    assert ran.document["error"]["code"] == "PRG-T013"
    assert ran.document["error"]["type"] == "TaskDefinitionError"


@pytest.mark.parametrize("command", ["check", "extract"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PERAGO_EXECUTION_MODE", "fork", "PERAGO_EXECUTION_MODE must be either"),
        ("PERAGO_WORKER_ID_PREFIX", "-", "PERAGO_WORKER_ID_PREFIX must contain only"),
        ("PERAGO_LOG_ROOT", "/proc", "/proc is not writable: "),
    ],
    ids=["value", "prefix", "root"],
)
def test_a_wrong_setting_is_reported_before_a_wrong_module(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    arguments = ["-o", "out.json"] if command == "extract" else []
    ran = run(command, "no_such_module", *arguments)
    assert ran.code == 1
    assert ran.err.startswith(f"error: {said}")


def test_a_module_target_is_required(run: Run) -> None:
    ran = run("check")
    assert (ran.code, ran.out) == (2, "")
    assert "Missing argument" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import no_such\n",
            [
                "error: {name} cannot be imported: ModuleNotFoundError: No module named 'no_such'",
                '  File "{path}", line 1, in <module>',
                "    import no_such",
            ],
        ),
        (
            "def f():\n    raise RuntimeError('boom')\nf()\n",
            [
                "error: {name} cannot be imported: RuntimeError: boom",
                '  File "{path}", line 3, in <module>',
                "    f()",
                '  File "{path}", line 2, in f',
                "    raise RuntimeError('boom')",
            ],
        ),
        (
            "def (\n",
            [
                "error: {name} cannot be imported: SyntaxError: invalid syntax",
                '  File "{path}", line 1',
                "    def (",
                "        ^",
            ],
        ),
        (
            "\n\nfrom perago import task\n\n@task(name='', owner_email='o')\ndef f(): ...\n",
            ["error: task name is required", "  at {path}:5"],
        ),
    ],
    ids=["missing module", "exception", "syntax", "declaration"],
)
def test_an_import_error_shows_lines_of_the_author_and_none_of_perago(
    project: Path, run: Run, text: str, said: list[str], request: pytest.FixtureRequest
) -> None:
    name = "broken_" + "_".join(request.node.callspec.id.split())
    path = project / f"{name}.py"
    path.write_text(text)
    ran = run("check", name)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[:-1] == [each.format(name=name, path=path) for each in said]
    assert ran.err.splitlines()[-1].startswith("  PRG-T0")


def test_a_root_model_is_refused(project: Path, run: Run) -> None:
    (project / "rooted.py").write_text(
        "from pydantic import RootModel\nfrom perago import task\n"
        "class Numbers(RootModel[list[int]]): ...\n"
        "@task(name='r', owner_email='o')\n"
        "def f(params: Numbers) -> Numbers: return params\n"
    )
    ran = run("check", "rooted")
    assert ran.code == 1
    assert ran.err.startswith("error: Pydantic RootModel on task model(s) Numbers is not")


def test_a_declaration_without_effect_is_a_warning(run: Run, module: Module) -> None:
    keywords = (
        f"workspace=WorkspaceSpec(read_only=True), controls=TaskControls(publish_budget={BUDGET})"
    )
    for arguments in (["check"], ["extract", "-o", "out.json"]):
        ran = run(*arguments, module("in_vain", keywords=keywords))
        assert ran.code == 0
        assert ran.err == (
            "warning: WorkspaceSpec(read_only=True) disables workspace publication;"
            " TaskControls.publish_budget is ignored.\n"
        )


def test_a_lease_shorter_than_the_budget_is_a_warning(run: Run, module: Module) -> None:
    keywords = f"workspace=WorkspaceSpec(), controls=TaskControls(publish_budget={BUDGET})"
    ran = run("check", module("short_lease", keywords=keywords))
    assert ran.code == 0
    assert ran.err.startswith("warning: Task 'short_lease' has TaskControls.timeout.response_")


def test_a_configured_model_is_a_warning(project: Path, run: Run) -> None:
    (project / "loose.py").write_text(
        "from pydantic import BaseModel, ConfigDict\nfrom perago import task\n"
        f"{CONFIGURED}    a: int = 1\n"
        "@task(name='l', owner_email='o')\n"
        "def f(params: Loose) -> Loose: return params\n"
    )
    ran = run("check", "loose")
    assert ran.code == 0
    assert ran.err.startswith("warning: Pydantic ConfigDict on task model(s) Loose is not part")


def test_a_workspace_in_params_is_no_warning(project: Path, run: Run) -> None:
    """Its configuration is Perago's own; docs/how-to/several-tasks-on-one-branch.md has one."""
    (project / "planned.py").write_text(
        "from pydantic import BaseModel\nfrom perago import WorkspaceInput, task\n"
        "class Wanted(BaseModel):\n    workspace: WorkspaceInput\n"
        "@task(name='p', owner_email='o')\n"
        "def f(params: Wanted) -> Wanted: return params\n"
    )
    ran = run("check", "planned")
    assert (ran.code, "ConfigDict" in ran.err) == (0, False)


def test_extract_prints_the_path_and_nothing_else(project: Path, run: Run, module: Module) -> None:
    ran = run("extract", module("extracted"), "--output", "out/extracted.json")
    assert (ran.code, ran.out, ran.err) == (0, "out/extracted.json\n", "")
    written = json.loads((project / "out" / "extracted.json").read_text())
    assert written["name"] == "extracted"
    as_json = run("extract", "extracted", "-o", "out/extracted.json", "--json")
    assert as_json.document == {
        "schema": "perago.extract/1",
        "task": "extracted",
        "path": "out/extracted.json",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-o", "out.txt"], 1, "error: output must be a JSON file path, for example"),
        (["-o", "folder.json"], 1, "error: output must be a JSON file path, not a directory"),
        ([], 2, "Usage: perago extract"),
    ],
)
def test_extract_refuses_what_is_no_json_file(
    project: Path, run: Run, module: Module, arguments: list[str], code: int, said: str
) -> None:
    (project / "folder.json").mkdir()
    ran = run("extract", module("not_extracted"), *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(said)
