"""The remedy of each code of settings: it sets what was missing, or shows where a value comes from.

What was printed before is printed no more afterwards; where a command goes on, the next fact is.
"""

import os
from dataclasses import dataclass, field

import pytest
from tests.unit.remedies.shell import Shell, printed_for

from perago.app.worker_description import worker_child_specs
from perago.domain.errors import ChangesRefusedError, RuntimeConfigError

TASK = """from pathlib import Path
from pydantic import BaseModel
from perago import MetricSpec, MetricRecorder, WorkspaceSpec, task


class P(BaseModel):
    n: int = 1


@task(name="words", owner_email="o@example.org", {keywords})
def f({workspace}params: P{metrics}) -> P:
    return params
"""
FREE = TASK.format(keywords="strict_params=True", workspace="", metrics="")
IN_WORKSPACE = TASK.format(
    keywords="workspace=WorkspaceSpec()", workspace="workspace: Path, ", metrics=""
)
MEASURED = TASK.format(
    keywords="metrics=MetricSpec(worker_capacity=True)",
    workspace="",
    metrics=", metrics: MetricRecorder",
)
CHECK, START = "perago check {module}", "perago start {module} --execution-mode thread"
NOT_REGISTERED = "is not registered"


@dataclass(frozen=True)
class Scene:
    """Settings, what a person types, what the remedy shows, and the correction it asks for.

    `then` is printed by the same command afterwards: what was accepted, or the next fact.
    """

    variables: str
    typed: str
    shown: str
    then: str
    mended: str = ""
    names: dict[str, str] = field(default_factory=dict[str, str])
    module: str = FREE


SCENES = {
    "PRG-C002": Scene(
        "export PERAGO_STRICT_INPUT=maybe",
        "perago config show",
        "PERAGO_STRICT_INPUT=maybe  (environment)",
        "PERAGO_STRICT_INPUT=true",
        mended="export PERAGO_STRICT_INPUT=true",
    ),
    "PRG-C003": Scene(
        "export CONDUCTOR_SERVER_URL=replace-me",
        CHECK,
        "=replace-me  (environment",
        "conductor: configured",
        mended="export CONDUCTOR_SERVER_URL=http://127.0.0.1:8080/api",
    ),
    "PRG-C004": Scene(
        "export LAKECTL_SERVER_ENDPOINT_URL=http://127.0.0.1:1",
        CHECK,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=  (",
        "lakefs: configured",
        mended="export LAKECTL_CREDENTIALS_ACCESS_KEY_ID=k LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=s",
    ),
    "PRG-C007": Scene("export PERAGO_WORKER_ID_PREFIX=-", CHECK, "", "worker_id_prefix: worker"),
    "PRG-C009": Scene(
        "export PERAGO_CONDUCTOR=memory:c009", START, "", NOT_REGISTERED, module=MEASURED
    ),
    "PRG-C010": Scene(
        "export PERAGO_CONDUCTOR=memory:c010", START, "", NOT_REGISTERED, module=IN_WORKSPACE
    ),
    "PRG-C011": Scene("unset PERAGO_CONDUCTOR", START, "", NOT_REGISTERED),
    "PRG-C012": Scene(
        "export PERAGO_CONDUCTOR=memory: PERAGO_LAKEFS=nowhere://x"
        " LAKECTL_CREDENTIALS_ACCESS_KEY_ID=k LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=s",
        "perago gc words --dry-run",
        "PERAGO_LAKEFS=nowhere://x  (environment)",
        "words",
        mended="export PERAGO_LAKEFS=memory:",
    ),
}


@pytest.mark.parametrize("code", SCENES)
def test_a_remedy_sets_or_shows_a_setting(shell: Shell, code: str) -> None:
    scene = SCENES[code]
    shell(scene.variables)
    shell.write(scene.module)
    typed = scene.typed.format(module=shell.module)
    printed = shell(typed)
    shown = shell.follow(code, printed, **scene.names)
    assert scene.shown in shown.out
    if scene.mended:
        shell(scene.mended)
    again = shell(typed)
    assert code not in again.err
    assert scene.then in again.out + again.err


def test_a_directory_that_cannot_be_made_says_why_and_another_is_taken(shell: Shell) -> None:
    """A suite that runs as root may write everywhere but below a file."""
    (shell.project / "file").touch()
    root = shell.project / "file" / "root"
    shell.write(FREE)
    shell(f"export PERAGO_WORKSPACE_ROOT={root}")
    printed = shell(f"perago check {shell.module}")
    assert "Not a directory" in shell.follow("PRG-C005", printed, PATH=str(root)).err
    shell(f"export PERAGO_WORKSPACE_ROOT={shell.project}/another")
    assert shell(f"perago check {shell.module}").code == 0


def test_a_directory_that_is_missing_is_made_for_its_user_alone(shell: Shell) -> None:
    root = shell.project / "new" / "root"
    shell.follow(
        "PRG-C005", printed_for(RuntimeConfigError(f"{root}", code="PRG-C005")), PATH=str(root)
    )
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_file_of_settings_is_read_again_until_it_is_corrected(shell: Shell) -> None:
    pyproject = shell.project / "pyproject.toml"
    pyproject.write_text("[tool.perago]\nunknown = 1\n")
    printed = shell("perago config show")
    # The error says that this command lists the known keys.
    seen = shell.follow("PRG-C006", printed)
    assert "PERAGO_STRICT_INPUT=false  (default)" in seen.out
    assert "unknown key: unknown" in seen.err
    pyproject.write_text("[tool.perago]\n")
    assert shell.follow("PRG-C006", printed).code == 0


def test_a_directory_that_others_can_write_to_is_closed_or_another_is_taken(shell: Shell) -> None:
    root = shell.project / "shared"
    root.mkdir()
    root.chmod(0o777)
    shell.write(FREE)
    shell(f"export PERAGO_WORKSPACE_ROOT={root}")
    printed = shell(f"perago check {shell.module}")
    assert shell.follow("PRG-C013", printed, PATH=str(root)).code == 0
    made = os.path.join(os.environ["HOME"], "perago")  # noqa: PTH118 - as a shell does
    assert os.stat(made).st_mode & 0o777 == 0o700  # noqa: PTH116
    assert shell(f"perago check {shell.module}").code == 0
    root.chmod(0o777)
    shell(f"export PERAGO_WORKSPACE_ROOT={made}")
    assert shell(f"perago check {shell.module}").code == 0


def test_a_worker_of_one_executor_starts_where_one_of_none_was_asked_for(shell: Shell) -> None:
    with pytest.raises(Exception, match="process") as caught:
        worker_child_specs(base_env={}, module_target="m", process_count=0)
    shell.write(FREE)
    shell.typed.append(shell.module)
    ran = shell.follow("PRG-C008", printed_for(caught.value), MODULE=shell.module)
    assert "CONDUCTOR_SERVER_URL" in ran.err  # the next fact: it asks for what to poll


def test_a_worker_is_what_can_say_what_changed(shell: Shell) -> None:
    shell.write(FREE)
    shell.typed.append(shell.module)
    printed = printed_for(ChangesRefusedError("a check is shown what changed by its view"))
    ran = shell.follow("PRG-B007", printed, MODULE=shell.module)
    assert "CONDUCTOR_SERVER_URL" in ran.err  # the next fact: it asks for what to poll


@pytest.mark.parametrize(
    ("code", "variable", "value"),
    [
        ("PRG-C014", "PERAGO_EXECUTOR_USER", "0"),
        ("PRG-C015", "PERAGO_EXECUTOR_PYTHON", "/nowhere/python"),
    ],
    ids=["user", "python"],
)
def test_task_code_runs_as_the_worker_once_its_own_setting_is_unset(
    shell: Shell, code: str, variable: str, value: str
) -> None:
    shell(f"export PERAGO_CONDUCTOR=memory:{code} {variable}={value}")
    shell.write(FREE)
    shell(f"perago register {shell.module}")
    printed = shell(f"perago start {shell.module} --execution-mode process")
    assert shell.follow(code, printed).code == 0
    assert variable not in os.environ


def test_an_error_of_another_package_shows_every_setting(shell: Shell) -> None:
    ran = shell.follow("PRG-C001", printed_for(RuntimeConfigError("no such region")))
    assert "PERAGO_LAKEFS=" in ran.out
