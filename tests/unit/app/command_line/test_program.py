"""The program around all commands: completion by shells, plain text, several modules, --json."""

import json
import re
import subprocess
import sys

import pytest
from tests.unit.app.command_line.command_run import Module, Run
from tools.write_reference import command_names

from perago.app.command_line.program import COMMANDS

ESCAPE = re.compile(r"\x1b\[")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["perago", "ch"], ["check"]),
        (["perago", "check", "--js"], ["--json"]),
        (["perago", "start", "--strict"], ["--strict-taskdef"]),
        (["perago", "fence", "in"], ["install"]),
        (["perago", "fence", "install", "--js"], ["--json"]),
        (["perago", "start", "--execution-mode", "th"], ["thread"]),
        (["perago", ""], [row.name for row in COMMANDS]),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_groups_options_and_choices(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], offered: list[str]
) -> None:
    monkeypatch.setenv("_PERAGO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    ran = run()
    assert (ran.code, ran.err) == (0, "")
    assert sorted(ran.out.split()) == sorted(offered)


@pytest.mark.parametrize(
    ("shell", "variables", "line"),
    [
        ("zsh", {}, '"check":"Validate task modules'),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "check\tValidate task modules"),
    ],
)
def test_other_shells_get_the_summaries_as_well(
    run: Run, monkeypatch: pytest.MonkeyPatch, shell: str, variables: dict[str, str], line: str
) -> None:
    monkeypatch.setenv("_PERAGO_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "perago che")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert line in run().out


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}], ids=str)
def test_nothing_is_coloured(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for arguments in (
        ["--help"],
        ["check", "--help"],
        ["check", module("colourless")],
        ["check", "absent_module"],
        ["chekc"],
        ["config", "show"],
    ):
        ran = run(*arguments)
        assert not ESCAPE.search(ran.out + ran.err), arguments


def test_several_modules_are_registered_together(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "memory:several")
    ran = run("register", module("several_a"), module("several_b"), "--json")
    assert [each["task"] for each in ran.document["tasks"]] == ["several_a", "several_b"]


def test_strict_taskdef_refuses_a_different_taskdef_at_start(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "memory:strict")
    first = module("strict_first", name="strict.task")
    second = module(
        "strict_second",
        name="strict.task",
        keywords="controls=TaskControls(timeout=TimeoutPolicy(seconds=9))",
    )
    missing = run("start", first, "--execution-mode", "thread")
    assert missing.code == 1
    assert "\nerror: Conductor TaskDef 'strict.task' is not registered;" in f"\n{missing.err}"
    assert run("register", first).code == 0
    ran = run("start", second, "--strict-taskdef", "--execution-mode", "thread")
    assert ran.code == 1
    error, remedy = ran.err.splitlines()[-2:]
    assert error == (
        "error: Conductor TaskDef 'strict.task' differs from the code:"
        " timeoutSeconds: registered 0, code 9"
    )
    assert remedy.startswith("  PRG-T019: `perago register MODULE` writes it")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-j", "0"], "'-j' / '--processes'"),
        (["-j", "many"], "'-j' / '--processes'"),
        (["--execution-mode", "fork"], "'--execution-mode'"),
        ([], "Missing argument 'MODULE'"),
    ],
    ids=["none", "word", "mode", "module"],
)
def test_wrong_usage_of_start_exits_with_2(run: Run, options: list[str], said: str) -> None:
    ran = run("start", *options, *(["some_module"] if options else []))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def documents() -> dict[str, list[str]]:
    """One command line of each command that answers without a server."""
    return {
        "check": ["check", "{module}"],
        "extract": ["extract", "{module}", "-o", "out.json"],
        "register": ["register", "{module}", "--dry-run"],
        "config show": ["config", "show"],
        "explain": ["explain", "PRG-U001"],
        "version": ["version"],
        "run": ["run", "{module}"],
    }


@pytest.mark.parametrize("name", documents())
def test_a_document_names_its_schema_and_version_and_stands_alone(
    run: Run, module: Module, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PERAGO_CONDUCTOR", "memory:documents")
    target = module(f"document_of_{name.partition(' ')[0]}")
    if name == "run":
        monkeypatch.setenv("PERAGO_LAKEFS", "memory:documents")
    ran = run(*(each.format(module=target) for each in documents()[name]), "--json")
    assert re.fullmatch(r"perago\.[a-z-]+/\d+", json.loads(ran.out)["schema"])


@pytest.mark.parametrize("name", sorted(set(command_names()) - {"start", "demo", "dev"}))
def test_a_command_without_its_arguments_or_services_ends_in_an_error_and_never_a_traceback(
    run: Run, name: str
) -> None:
    given = ["no_such_module"] * 2 if name != "config show" else []
    ran = run(*name.split(), *given)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in command_names()} | {""}))
def test_a_list_of_commands_cuts_no_summary_off(run: Run, name: str) -> None:
    shown = run(*[name][: len(name)], "--help").out
    listed = shown.partition("Commands:\n")[2]
    assert not re.search(r"\.\.\.$", listed, re.MULTILINE), listed


def test_a_reader_that_has_enough_ends_a_command_without_a_word() -> None:
    """As in `perago explain CODE | head -1`, where the rest of a pipe is closed."""
    command = f"{sys.executable} -m perago config show --origin | true"
    ran = subprocess.run(
        ["bash", "-c", f"sleep 0; {command}"],  # noqa: S607 - a shell has pipes
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Broken pipe" not in ran.stderr
    assert "PRG-" not in ran.stderr
