"""The remedy of each code of the command line: what to give it, and what a report needs."""

import json

from tests.unit.remedies.shell import Shell, printed_for
from tests.unit.remedies.test_settings import FREE

from perago import __version__
from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.domain.error_codes import error_codes


def test_a_report_of_a_defect_has_the_version_and_the_machine(shell: Shell) -> None:
    ran = shell.follow("PRG-X001", printed_for(ZeroDivisionError("by zero")))
    assert (ran.document["version"], bool(ran.document["platform"])) == (__version__, True)


def test_all_codes_are_listed_where_one_was_unknown(shell: Shell) -> None:
    listed = shell.follow("PRG-X002", shell("perago explain PRG-U0001")).out
    assert {line.split()[0] for line in listed.splitlines()} == set(error_codes())


def test_the_help_has_the_argument_that_was_wrong(shell: Shell) -> None:
    shell.write(FREE)
    printed = shell(f"perago run {shell.module} --write")
    assert "--write" in printed.err
    assert "`perago run --help`" in printed.err
    assert "--write" in shell.follow("PRG-X003", printed, COMMAND="run").out


def test_the_machine_says_what_is_at_a_path_that_was_refused(shell: Shell) -> None:
    shell.write(FREE)
    (shell.project / "file").touch()
    path = str(shell.project / "file")
    printed = shell(f"perago extract {shell.module} -o {path}/words.json")
    assert shell.follow("PRG-X004", printed, PATH=path).out.startswith("-rw")
    assert shell(f"perago extract {shell.module} -o words.json").code == 0


def test_a_fault_of_dev_is_given_to_a_task_that_is_there(shell: Shell) -> None:
    shell.write(FREE)
    shell(f"perago workflow new {shell.module} --output {shell.project}")
    run = f"perago dev {shell.project}/{shell.module}.json {shell.module} --once"
    printed = shell(f"{run} --fault crash:after=function,task=nothing")
    [row] = json.loads(shell.follow("PRG-X007", printed, MODULE=shell.module).out)["tasks"]
    for name in (row["name"], row["taskReferenceName"]):
        assert shell(f"{run} --fault crash:after=function,task={name}").code == 0


def test_attempts_are_looked_for_in_a_repository_that_is_named(shell: Shell) -> None:
    address = f"memory:{shell.project}"
    RepositoryBuilder(shared_memory(address), "songs").commit({"data/a": b"1"})
    shell(f"export PERAGO_LAKEFS={address}")
    printed = shell("perago attempts 2e1c9f7a-6f3d-4b7e-9a55-6b1d1d1f0a01")
    names = {"WORKFLOW": "2e1c9f7a-6f3d-4b7e-9a55-6b1d1d1f0a01", "REPO": "songs"}
    shell.typed.append("songs")  # which only the person knows
    assert shell.follow("PRG-X006", printed, **names).code == 0
