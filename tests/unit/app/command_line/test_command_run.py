"""`perago run`: one task on a copy of a directory, shown and written back only when told to."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

MODULE = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task


class Params(BaseModel):
    text: str


class Done(BaseModel):
    size: int


@task(name="cli.write", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="x"))
def write(workspace: Path, params: Params) -> Done:
    print("writing")
    (workspace / "new.txt").write_text(params.text)
    return Done(size=len(params.text))
"""


@pytest.fixture
def target(project: Path) -> str:
    (project / "trial_task.py").write_text(MODULE)
    (project / "ws").mkdir()
    (project / "ws/old.txt").write_text("old")
    return "trial_task"


def test_run_shows_the_change_and_leaves_the_directory_alone(run: Run, target: str) -> None:
    options = ["run", target, "--workspace", "ws", "--params", '{"text": "hi"}', "--diff"]
    ran = run(*options)
    assert ran.code == 0, ran.err
    assert "+ new.txt\n" in ran.out
    assert "+hi\n" in ran.out
    assert 'result: {"size": 2}' in ran.out
    assert "| writing" in ran.err
    assert not Path("ws/new.txt").exists()


def test_run_with_write_writes_the_changes_back(run: Run, target: str) -> None:
    Path("params.json").write_text('{"text": "hi"}')
    options = ["run", target, "--workspace", "ws", "--params", "params.json", "--write"]
    assert run(*options).code == 0
    assert Path("ws/new.txt").read_text() == "hi"
    assert Path("ws/old.txt").read_text() == "old"


def test_run_prints_json(run: Run, target: str) -> None:
    options = ["run", target, "--workspace", "ws", "--params", '{"text": "hi"}', "--json"]
    document = run(*options).document
    assert document["schema"] == "perago.run/1"
    assert document["status"] == "COMPLETED"
    assert document["changes"] == {"added": ["new.txt"], "changed": [], "removed": []}
    assert document["lines"] == ["writing"]


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        (["--params", "{}"], "takes one of --workspace and --repo", 2),
        (["--workspace", "ws", "--repo", "lakefs://a/b"], "takes one of --workspace and --repo", 2),
        (["--workspace", "nowhere"], "is not a directory", 2),
        (["--repo", "lakefs://a/main", "--write"], "--write needs --workspace", 2),
        (["--repo", "s3://a/b"], "expected lakefs://repository/ref", 2),
        (["--workspace", "ws", "--params", "{"], "--params", 2),
        (["--workspace", "ws", "--params", "absent.json"], "absent.json", 2),
        (
            ["--workspace", "ws", "--params", "text=hi"],
            """with one; found 'text=hi': write --params '{"text": "hi"}'\n""",
            2,
        ),
        (
            ["--workspace", "ws", "--params", "task.text=3"],
            """write --params '{"text": 3}'\n""",
            2,
        ),
        (["--workspace", "ws", "--params", "a/day=1.json"], "No such file", 2),
        (["--workspace", "ws", "--params", "=1"], "No such file", 2),
        (
            ["--workspace", "ws", "--params", "[1]"],
            """such as '{"name": 1}', or a file with one; found list""",
            2,
        ),
        (["--workspace", "ws", "--params", '{"text": 1}'], "FAILED", 1),
    ],
    ids=str,
)
def test_run_refuses_with_a_reason(
    run: Run, target: str, options: list[str], text: str, code: int
) -> None:
    ran = run("run", target, *options)
    assert ran.code == code
    assert ("PRG-X003" in ran.err) == (code == 2)
    assert text in ran.out + ran.err


def test_a_misspelt_parameter_is_ignored_with_a_warning(run: Run, target: str) -> None:
    given = '{"text": "hi", "txet": "ho"}'
    ran = run("run", target, "--workspace", "ws", "--params", given)
    assert ran.code == 0
    expected = "warning: the task has no parameter txet; it is ignored; did you mean text?\n"
    assert expected in ran.err


FAILING = """
import logging
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, current_attempt, task


class Params(BaseModel):
    how: str


class Done(BaseModel):
    size: int


@task(name="cli.fail", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="{prefix}"))
def fail(workspace: Path, params: Params) -> Done:
    current_attempt().logger.info("said to the attempt")
    logging.getLogger("mine").info("said to a logger")
    (workspace / "new.txt").write_text("new")
    if params.how == "raise":
        raise KeyError("why")
    if params.how == "result":
        return {{"size": "x"}}
    if params.how == "link":
        (workspace / "link").symlink_to("new.txt")
    if params.how == "reserved":
        (workspace / "_lakefs_actions").mkdir()
        (workspace / "_lakefs_actions/mine.yaml").write_text("")
    return Done(size=1)
"""


@pytest.mark.parametrize(
    ("how", "prefix", "reason"),
    [
        ("raise", "x", "FAILED: KeyError: 'why'"),
        ("result", "x", "FAILED: ValidationError: result.size: Input should be a valid integer"),
        ("link", "x", "FAILED: workspace publication does not support symlinks: link"),
        ("reserved", "/", "FAILED: _lakefs_actions/mine.yaml is reserved;"),
    ],
    ids=["raise", "result", "link", "reserved"],
)
def test_a_failed_task_function_is_reported_with_its_own_lines_and_a_code(
    project: Path, run: Run, how: str, prefix: str, reason: str
) -> None:
    (project / f"failing_{how}.py").write_text(FAILING.format(prefix=prefix))
    (project / "ws").mkdir()
    options = ["--workspace", "ws", "--params", f'{{"how": "{how}"}}']
    ran = run("run", f"failing_{how}", *options)
    assert ran.code == 1
    assert reason in ran.out
    assert "| INFO perago.task: said to the attempt" in ran.err
    assert "| INFO mine: said to a logger" in ran.err
    assert "+ new.txt" in ran.out
    code = {"result": "PRG-R001", "link": "PRG-W005", "reserved": "PRG-W001"}.get(how, "")
    assert code in ran.out
    frames = [line for line in ran.err.splitlines() if line.startswith("  File")]
    expected = f'  File "{project / "failing_raise.py"}", line 22, in fail'
    assert frames == ([expected] if how == "raise" else [])


def test_the_error_names_a_link_in_the_given_directory(run: Run, target: str) -> None:
    Path("ws/link").symlink_to("old.txt")
    ran = run("run", target, "--workspace", "ws", "--params", '{"text": "hi"}')
    assert ran.code == 1
    assert ran.err.startswith("error: workspace publication does not support symlinks: link")
    assert "PRG-W005" in ran.err


def test_control_characters_in_names_content_and_output_do_not_reach_the_terminal(
    run: Run, target: str
) -> None:
    hostile = "a\x1b]0;stolen\x07\x1b[2Jx\nresult: {}"
    Path("ws").joinpath(hostile.replace("/", "")).write_text("line with \x1b[31m escape\r\n")
    module = Path("trial_task.py")
    text = module.read_text().replace('print("writing")', f"print({hostile!r})")
    text = text.replace(
        "    return", "    [each.unlink() for each in workspace.glob('a*')]\n    return"
    )
    module.write_text(text)
    options = ["run", target, "--workspace", "ws", "--params", '{"text": "hi"}', "--diff"]
    ran = run(*options)
    assert ran.code == 0, ran.err
    assert not set("\x1b\x07\r") & set(ran.out + ran.err)
    assert "- a\\x1b]0;stolen\\x07\\x1b[2Jx\\nresult: {}\n" in ran.out
    assert "| a\\x1b]0;stolen" in ran.err
    assert "-line with \\x1b[31m escape" in ran.out
    assert [line for line in ran.out.splitlines() if line.startswith("result")] == [
        'result: {"size": 2}'
    ]


def test_control_characters_in_a_traceback_do_not_reach_the_terminal(run: Run, target: str) -> None:
    module = Path("trial_task.py")
    hostile = "raise ValueError('x\\x1b]0;stolen\\x07\\x1b[2Jx')"
    module.write_text(module.read_text().replace('print("writing")', hostile))
    ran = run("run", target, "--workspace", "ws", "--params", '{"text": "hi"}')
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert "ValueError: x\\x1b]0;stolen" in ran.err
    assert not set("\x1b\x07\r") & set(ran.out + ran.err)
