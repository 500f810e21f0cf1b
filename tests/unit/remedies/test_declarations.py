"""The remedy of each code of declarations: `perago check` shows the mistake, and no more mended."""

from dataclasses import dataclass

import pytest
from tests.unit.remedies.shell import Shell

HEAD = """from collections.abc import Callable
from pathlib import Path
from pydantic import BaseModel, RootModel
from perago import (
    ExecutionLimits, MetricRecorder, PublishBudget, RetryPolicy, StagedView, TaskControls,
    WorkspaceSpec, require_file, require_glob, task,
)


class P(BaseModel):
    n: int = 1


"""
FREE = "def f(params: P) -> P: return params\n"
IN_WORKSPACE = "def f(workspace: Path, params: P) -> P: return params\n"
BUDGET = (
    "PublishBudget(observed_merge_p99_seconds=1, safety_margin_seconds=1,"
    " lakefs_merge_timeout_seconds=5, conductor_completion_timeout_seconds=5,"
    " worker_shutdown_grace_seconds=30, heartbeat_interval_seconds=5)"
)


def declared(keywords: str = "", function: str = FREE, *, name: str = "'words'") -> str:
    """A task module."""
    more = f", {keywords}" if keywords else ""
    return f"{HEAD}@task(name={name}, owner_email='o@example.org'{more})\n{function}"


def in_workspace(spec: str) -> str:
    """A task module with a workspace."""
    return declared(f"workspace=WorkspaceSpec({spec})", IN_WORKSPACE)


@dataclass(frozen=True)
class Mistake:
    """A module with a mistake, what `perago check` shows of it, and the module without it."""

    wrong: str
    shown: str
    right: str


AT_THE_TASK = ".py:14"  # where the declaration begins
MISTAKES = {
    "PRG-T001": Mistake(in_workspace("prefx='data'"), AT_THE_TASK, in_workspace("prefix='data'")),
    "PRG-T002": Mistake(declared("unknown=1"), AT_THE_TASK, declared()),
    "PRG-T003": Mistake(declared(name="''"), AT_THE_TASK, declared()),
    "PRG-T004": Mistake(declared("strict_params=1"), AT_THE_TASK, declared("strict_params=True")),
    "PRG-T005": Mistake(
        declared(f"controls=TaskControls(publish_budget={BUDGET})"), AT_THE_TASK, declared()
    ),
    "PRG-T006": Mistake(declared(function=f"async {FREE}"), AT_THE_TASK, declared()),
    "PRG-T007": Mistake(
        declared(function="def f(*params: P) -> P: return P()\n"), AT_THE_TASK, declared()
    ),
    "PRG-T008": Mistake(
        declared(function="def f(params: 'Missing') -> P: return P()\n"), AT_THE_TASK, declared()
    ),
    "PRG-T009": Mistake(declared(function="def f() -> P: return P()\n"), AT_THE_TASK, declared()),
    "PRG-T010": Mistake(
        declared(function="def f(params: P) -> dict: return {}\n"), AT_THE_TASK, declared()
    ),
    "PRG-T011": Mistake(f"{declared()}1 / 0\n", "    1 / 0", declared()),
    "PRG-T012": Mistake(
        HEAD.replace("P(BaseModel):\n    n: int = 1", "P(RootModel[int]):\n    pass")
        + declared().removeprefix(HEAD),
        "P",
        declared(),
    ),
    "PRG-T015": Mistake(in_workspace("prefix='data/'"), AT_THE_TASK, in_workspace("prefix='data'")),
    "PRG-T016": Mistake(
        in_workspace("pre=[require_glob('*', min_count=2, max_count=1)]"),
        AT_THE_TASK,
        in_workspace("pre=[require_glob('*', min_count=1, max_count=2)]"),
    ),
    "PRG-T017": Mistake(
        declared("controls=TaskControls(limits=ExecutionLimits(rate_limit_per_frequency=1))"),
        AT_THE_TASK,
        declared(
            "controls=TaskControls(limits=ExecutionLimits(rate_limit_per_frequency=1,"
            " rate_limit_frequency_in_seconds=1))"
        ),
    ),
    "PRG-T021": Mistake(
        HEAD.replace("    n: int = 1", "    call: Callable[[], int]")
        + declared().removeprefix(HEAD),
        "P.call",
        declared(),
    ),
    "PRG-T023": Mistake(
        in_workspace("prefix='{params.x}'"), AT_THE_TASK, in_workspace("prefix='{params.n}'")
    ),
    "PRG-T022": Mistake(
        in_workspace("checks=[lambda: None]"),
        AT_THE_TASK,
        in_workspace("checks=[lambda view: None]"),
    ),
}


@pytest.mark.parametrize("code", MISTAKES)
def test_check_shows_a_mistake_until_it_is_corrected(shell: Shell, code: str) -> None:
    """The correction keeps the line: a process remembers what its modules declared, by line."""
    mistake = MISTAKES[code]
    shell.write(mistake.wrong)
    printed = shell(f"perago check {shell.module}")
    seen = shell.follow(code, printed, MODULE=shell.module)
    assert (seen.code, mistake.shown in seen.err) == (1, True), seen.err

    shell.write(mistake.right)
    assert shell.follow(code, printed, MODULE=shell.module).out.startswith("ok: words\n")


def test_the_name_of_a_module_is_taken_where_that_of_its_file_was_not(shell: Shell) -> None:
    shell.write(declared())
    printed = shell(f"perago check {shell.module}.py")
    assert shell.follow("PRG-T013", printed, MODULE=shell.module).out.startswith("ok: words\n")


def test_the_tasks_of_a_module_are_listed_where_one_had_to_be_chosen(shell: Shell) -> None:
    other = declared(name="'others'").removeprefix(HEAD).replace("def f(", "def g(")
    shell.write(declared() + other)
    printed = shell(f"perago run {shell.module}")
    listed = shell.follow("PRG-T014", printed, MODULE=shell.module).out
    names = [line.removeprefix("ok: ") for line in listed.splitlines() if line.startswith("ok: ")]
    assert names == ["words", "others"]
    assert all(shell(f"perago run {shell.module} --task {name}").code == 0 for name in names)


def test_tasks_that_would_be_in_the_way_of_each_other_run_one_after_the_other(shell: Shell) -> None:
    other = in_workspace("prefix='data'").removeprefix(HEAD).replace("def f(", "def g(")
    shell.write(in_workspace("prefix='data'") + other.replace("'words'", "'others'"))
    printed = shell(f"perago workflow new {shell.module} --fork")
    written = shell.follow("PRG-T024", printed, MODULE=shell.module)
    assert (written.code, written.out.count('"SIMPLE"')) == (0, 2)


def test_a_taskdef_is_written_to_a_name_that_ends_in_json(shell: Shell) -> None:
    shell.write(declared())
    printed = shell(f"perago extract {shell.module} -o words.txt")
    written = shell.follow("PRG-T018", printed, MODULE=shell.module).out.strip()
    assert (shell.project / written).is_file()


def test_a_taskdef_that_was_missing_is_registered(shell: Shell) -> None:
    shell("export PERAGO_CONDUCTOR=memory:remedies")
    shell.write(declared())
    printed = shell(f"perago start {shell.module} --execution-mode thread")
    assert shell.follow("PRG-T019", printed, MODULE=shell.module).code == 0
    assert "unchanged" in shell(f"perago register {shell.module} --dry-run").out


def test_a_module_is_found_by_the_name_that_the_error_proposes(shell: Shell) -> None:
    shell.write(declared())
    printed = shell(f"perago check {shell.module[:-1]}")
    assert f"did you mean {shell.module}" in printed.err
    assert shell.follow("PRG-T020", printed, MODULE=shell.module).out.startswith("ok: words\n")
