"""The remedy of each code of inputs, results, functions, guardrails and workspaces.

The task of a scene is one module. An attempt runs it on servers in memory, and the remedy repeats
it with `perago run` on the same commit, or shows the row or the commit. The correction is made in
the module or in the input, and then a new workflow completes.
"""

import asyncio
import errno
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.remedies.servers import serve
from tests.unit.remedies.shell import Shell, printed_for

from perago import invoke_workspace_free_task
from perago.app.authoring.envelope import read_params
from perago.app.authoring.failure import failure_reason
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.settings.settings import load_settings
from perago.domain.policy import PolicySetting
from perago.ports.errors import LocalDiskError, RequestRefusedError
from perago.testing.faults import Fault, refuse

HEAD = """import shutil
from pathlib import Path
from pydantic import BaseModel
from perago import (
    StagedView, TaskFailed, TaskTerminalError, WorkspaceSpec, current_attempt, require_file, task
)
from perago.domain.errors import TaskExecutionError


class P(BaseModel):
    n: int = 1
    song: str = "a"


class R(BaseModel):
    f: float = 1.0
    text: str = ""


def refuses(view: StagedView) -> None:
    raise ValueError("no songs")


"""
FINE = '(workspace / "out.txt").write_text(f"{params.n}"); return R()'


def module(function: str = FINE, spec: str = "prefix='data'") -> str:
    """A task module; both versions of one have their task at the same line."""
    return (
        f"{HEAD}@task(name={TASK!r}, owner_email='o@example.org',"
        f" workspace=WorkspaceSpec({spec}))\n"
        f"def edit(workspace: Path, params: P) -> R:\n    {function}\n"
    )


ABSENT, NULL = object(), object()
# What such a function says is the author's own reason, and has no code.
OF_THE_AUTHOR = frozenset({"PRG-B001", "PRG-B002", "PRG-B003", "PRG-B004"})


@dataclass(frozen=True)
class Scene:
    """What is wrong, and what the remedy shows of it; `code` is how its command ends.

    `params` and `workspace` are what the first row gets; the second gets what a task expects.
    """

    shown: str
    function: str = FINE
    spec: str = "prefix='data'"
    right_spec: str = "prefix='data'"
    params: object = None
    workspace: object = None
    faults: Sequence[Fault] = ()
    code: int = 1


SCENES = {
    "PRG-I001": Scene('"inputData": {"workspace"', params=ABSENT, code=0),
    "PRG-I002": Scene('"extra": 1', workspace={"extra": 1}, code=0),
    "PRG-I003": Scene("PRG-I003", params={"n": "many"}),
    "PRG-I004": Scene('"workspace": null', workspace=NULL, code=0),
    "PRG-I006": Scene("Commit ID: ", workspace={"ref": "main"}, code=0),
    "PRG-I008": Scene('"ref_type": "tag"', workspace={"ref_type": "tag"}, code=0),
    "PRG-I010": Scene("PRG-I010", 'return R(text="x" * 5_000_000)'),
    "PRG-I011": Scene("PRG-I011", 'return {"f": float("nan")}'),
    "PRG-R001": Scene("PRG-R001", 'return {"wrong": 1}'),
    "PRG-R004": Scene(
        'result: {"f": 1.0',
        faults=(refuse("queue.complete", RequestRefusedError("too large")),),
        code=0,
    ),
    "PRG-B001": Scene("no songs", 'raise TaskFailed("no songs")'),
    "PRG-B002": Scene("no songs", 'raise TaskTerminalError("no songs")'),
    "PRG-B003": Scene("no songs", 'raise TaskExecutionError("no songs")'),
    "PRG-B004": Scene("ZeroDivisionError", "1 / 0"),
    "PRG-G001": Scene(
        "data/kept.txt", spec="prefix='data', pre=[require_file('absent.txt')]", code=0
    ),
    "PRG-G002": Scene(
        "post require_file('absent.txt')", spec="prefix='data', post=[require_file('absent.txt')]"
    ),
    "PRG-G003": Scene("data/out.txt", spec="prefix='data', checks=[refuses]", code=0),
    "PRG-W001": Scene(
        "PRG-W001",
        '(workspace / "_lakefs_actions").mkdir();'
        ' (workspace / "_lakefs_actions/mine.yaml").write_text("name: mine"); return R()',
        spec="prefix='/'",
        right_spec="prefix='/'",
    ),
    "PRG-W002": Scene("data/kept.txt", '(workspace / "a\\\\b").touch(); return R()', code=0),
    "PRG-W003": Scene("", "shutil.rmtree(workspace); return R()", code=2),
    "PRG-W004": Scene(
        "Filesystem",
        faults=(
            refuse(
                "objects.download",
                LocalDiskError.of("/tmp", OSError(errno.EACCES, "Permission denied")),  # noqa: S108
            ),
        ),
        code=0,
    ),
    "PRG-W005": Scene("PRG-W005", '(workspace / "link").symlink_to("kept.txt"); return R()'),
}


@pytest.mark.parametrize("code", SCENES)
def test_a_remedy_shows_what_is_wrong_until_it_is_corrected(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    scene = SCENES[code]
    harness = AttemptHarness(tmp_path / "world", PolicySetting.SETTLED)
    shell.write(module(scene.function, scene.spec))
    harness.task = declared(shell)
    reason = asyncio.run(_first_row(harness, scene))
    assert code in reason or code in OF_THE_AUTHOR
    serve(shell, harness, monkeypatch)
    params: object = {} if scene.params is ABSENT else scene.params or {}
    (shell.project / "params.json").write_text(json.dumps(params))
    names = _names(shell, harness, reason)
    # A person puts in what is in the row, in its reason, or what the worker was started with.
    shell.typed += [reason, shell.module, harness.workflow, f"repo main {harness.input}"]
    ran = shell.follow_reason(code, **names)
    assert (ran.code, scene.shown in ran.out + ran.err) == (scene.code, True), ran

    shell.write(module(spec=scene.right_spec))
    harness.task = declared(shell)
    (shell.project / "params.json").write_text("{}")
    assert shell.follow_reason(code, **names).code in {0, scene.code}
    asyncio.run(_next_row(harness))


async def _first_row(harness: AttemptHarness, scene: Scene) -> str:
    harness.params = {} if scene.params is None or scene.params is ABSENT else scene.params
    if scene.workspace is NULL:
        await harness.start(None)
    else:
        changes = cast("dict[str, object]", scene.workspace or {})
        await harness.start(harness.workspace(**changes))
    if scene.params is ABSENT:
        await _start_without_params(harness)
    report = await harness.report(*scene.faults)
    assert report.error is not None
    return failure_reason(report.error)


async def _start_without_params(harness: AttemptHarness) -> None:
    harness.conductor.terminate(harness.workflow, "another one is started")
    row = {"name": TASK, "taskReferenceName": TASK, "type": "SIMPLE"}
    flow = {"name": "without", "version": 1, "schemaVersion": 2}
    given = {"inputParameters": {"workspace": "${workflow.input.workspace}"}}
    await harness.operator.workflows.put_definition({**flow, "tasks": [{**row, **given}]})
    workspace = {"workspace": harness.workspace()}
    harness.workflow = await harness.operator.workflows.start("without", workspace)


async def _next_row(harness: AttemptHarness) -> None:
    harness.conductor.terminate(harness.workflow, "a new one is started")
    harness.params = {}
    await harness.start(harness.workspace(ref=harness.repository.head().commit))
    report = await harness.report()
    assert report.error is None, report.error


def declared(shell: Shell) -> TaskDefinition:
    """The task as a worker has it, past the module that commands import."""
    names: dict[str, object] = {"__name__": f"{shell.module}_of_a_worker"}
    exec((shell.project / f"{shell.module}.py").read_text(), names)  # noqa: S102 - a text of ours
    definition: TaskDefinition = vars(names["edit"])["__perago_task__"]
    return definition


def _names(shell: Shell, harness: AttemptHarness, reason: str) -> dict[str, str]:
    words = reason.replace(";", " ").replace(":", " ").replace(",", " ").split()
    commits = [word for word in words if len(word) == 64 and word != harness.input]
    paths = [word for word in words if word.startswith("/")]
    return {
        "MODULE": shell.module,
        "WORKFLOW": harness.workflow,
        "REPO": "repo",
        "BRANCH": "main",
        "REF": harness.input,
        "COMMIT": commits[0] if commits else "",
        "PATH": paths[0] if paths else "",
    }


def test_unknown_keys_of_an_input_are_ignored_where_the_switch_is_unset(shell: Shell) -> None:
    shell("export PERAGO_STRICT_INPUT=true")
    shell.write(module())
    given: dict[str, object] = {"params": {}, "workspace": {}, "unknown": 1}
    with pytest.raises(ValueError, match="unknown"):
        read_params(declared(shell), given, strict=load_settings().strict_input)
    shell.follow_reason("PRG-I005")
    params = read_params(declared(shell), given, strict=load_settings().strict_input)
    assert params.model_dump() == {"n": 1, "song": "a"}


def test_the_help_of_run_shows_what_each_kind_of_task_takes(shell: Shell) -> None:
    shell.write(module())
    with pytest.raises(Exception, match="workspace") as caught:
        invoke_workspace_free_task(declared(shell), {})
    shell.typed.append(shell.module)
    ran = shell.follow("PRG-I007", printed_for(caught.value), MODULE=shell.module)
    assert "--workspace" in ran.out
