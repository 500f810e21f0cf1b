"""An attempt, `perago run` and TaskEnvironment say the same of the same body on the same files."""

import re
import shutil
import tempfile
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.app.command_line import awkward_bodies
from tests.unit.app.command_line.awkward_bodies import (
    WAYS,
    guarded,
    in_a_folder,
    in_the_root,
    reading_only,
    without_workspace,
)
from tests.unit.app.command_line.command_run import Run

from perago import WorkspaceSpec, task
from perago.testing import PeragoEnvironment, TaskEnvironment
from perago.testing.definitions import TaskFunction, definition_of
from perago.testing.file_trees import diff_lines, read_tree, write_back
from perago.testing.trial import run_task_once

MODULE = awkward_bodies.__name__
FILES = {"in.txt": "in"}
LARGE_BYTES = 32 * 1024 * 1024
# Directories have other names in each harness, and ids of attempts are in them.
PLACE = re.compile(r"(/[^\s;,']+)+")
CODE = re.compile(r"PRG-[A-Z]\d{3}")


@dataclass(frozen=True)
class Said:
    """How a run ended."""

    status: str
    code: str
    reason: str


def said(status: object, reason: str | None) -> Said:
    text = PLACE.sub("/...", reason or "")
    code = CODE.search(text)
    return Said(str(status), code[0] if code else "", text)


async def by_an_attempt(
    task: TaskFunction, files: Mapping[str, str], params: Mapping[str, object]
) -> Said:
    spec = definition_of(task).workspace
    with PeragoEnvironment() as env:
        repository = None
        if spec is not None:
            outer = "" if spec.prefix == "/" else f"{spec.prefix}/"
            stored = {f"{outer}{path}": text for path, text in files.items()}
            repository = await env.repository("trial", dict(stored))
        await env.run(task, repository, params=params)
        (story,) = env.attempts
        return said(story.status, story.reason)


def by_the_command(
    run: Run, task: TaskFunction, files: Mapping[str, str], params: Mapping[str, object]
) -> Said:
    definition = definition_of(task)
    place: list[str] = []
    if definition.has_workspace:
        for path, text in files.items():
            Path("ws", path).parent.mkdir(parents=True, exist_ok=True)
            Path("ws", path).write_text(text)
        Path("ws").mkdir(exist_ok=True)
        place = ["--workspace", "ws"]
    Path("params.json").write_text(str(dict(params)).replace("'", '"'))
    options = ["--task", definition.name, *place, "--params", "params.json", "--json"]
    ran = run("run", MODULE, *options)
    assert ran.code == (0 if ran.document["status"] == "COMPLETED" else 1)
    return said(ran.document["status"], ran.document["reason"])


def by_the_kit(task: TaskFunction, files: Mapping[str, str], params: Mapping[str, object]) -> Said:
    done = TaskEnvironment().run(task, files, params)
    return said(done.status, done.reason)


OTHER_INPUTS: list[tuple[TaskFunction, Mapping[str, str], Mapping[str, object]]] = [
    (in_a_folder, FILES, {"number": "many"}),
    (in_a_folder, {}, {"how": "a new file"}),
    (in_a_folder, {"a\\b": "x"}, {}),
    (guarded, {}, {}),
    (guarded, {**FILES, "a.lock": ""}, {}),
    (guarded, FILES, {"how": "a new file"}),
    (without_workspace, {}, {"number": "many"}),
    (without_workspace, {}, {"how": "nan"}),
    (without_workspace, {}, {"how": "eleven megabytes"}),
    (without_workspace, {}, {"how": "gives up"}),
]


@pytest.mark.parametrize(
    ("task", "files", "params"),
    [
        *(
            pytest.param(task, FILES, {"how": how}, id=f"{task.__name__}: {how}")
            for task in (in_a_folder, in_the_root, reading_only)
            for how in WAYS
        ),
        *(
            pytest.param(guarded, FILES, {"how": how}, id=f"guarded: {how}")
            for how in ("nothing", "litter", "removes its directory", "backslash", "raises")
        ),
        *(
            pytest.param(*row, id=f"{row[0].__name__} on {row[1]}: {row[2]}")
            for row in OTHER_INPUTS
        ),
    ],
)
async def test_run_task_environment_and_attempt_agree(
    run: Run,
    project: Path,
    task: TaskFunction,
    files: Mapping[str, str],
    params: Mapping[str, object],
) -> None:
    assert Path.cwd() == project
    attempt = await by_an_attempt(task, files, params)
    assert by_the_kit(task, files, params) == attempt
    assert by_the_command(run, task, files, params) == attempt


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_trial_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for how in ("a new file", "replaces its directory", "removes its directory"):
        by_the_kit(in_a_folder, FILES, {"how": how})
    opened = _open_files()
    for how in ("a new file", "replaces its directory", "removes its directory"):
        by_the_kit(in_a_folder, FILES, {"how": how})
    assert _open_files() == opened
    assert list(tmp_path.iterdir()) == []


@task(name="large", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
def copy_a_large_file(workspace: Path, params: awkward_bodies.How) -> awkward_bodies.How:
    """Write as much as there was."""
    shutil.copyfile(workspace / "large.bin", workspace / "copy.bin")
    with (workspace / "large.bin").open("r+b") as file:
        file.write(b"changed")
    return params


def test_a_large_file_is_never_read_into_memory_as_a_whole(tmp_path: Path) -> None:
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(LARGE_BYTES)
    definition = definition_of(copy_a_large_file)
    tracemalloc.start()
    try:
        with run_task_once(definition, {}, read_tree(tmp_path)) as done:
            assert done.completed
            assert (done.diff.added, done.diff.changed) == (("copy.bin",), ("large.bin",))
            shown = list(diff_lines(done.before, done.files))
            write_back(tmp_path, done.before, done.files)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"binary copy.bin: nothing -> {LARGE_BYTES} bytes" in shown
    assert (tmp_path / "copy.bin").stat().st_size == LARGE_BYTES
    assert (tmp_path / "large.bin").read_bytes()[:7] == b"changed"
    assert peak < LARGE_BYTES / 2
