"""Tasks whose bodies do what a body should not, one way for each value of `how`."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from perago import (
    RetryPolicy,
    TaskControls,
    TaskFailed,
    TaskTerminalError,
    WorkspaceSpec,
    forbid_glob,
    require_file,
    task,
)

ONCE = TaskControls(retry=RetryPolicy(count=0))
OWNER = "data@example.com"


class How(BaseModel):
    """Which way, and a number that has to be one."""

    how: str = "nothing"
    number: int = 0


class Said(BaseModel):
    """What the body returns."""

    text: str = ""
    value: float = 0.0


def _fails(error: BaseException) -> Callable[[Path], Said]:
    def fail(workspace: Path) -> Said:
        del workspace
        raise error

    return fail


def _writes(name: str) -> Callable[[Path], Said]:
    def write(workspace: Path) -> Said:
        target = workspace / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("x")
        return Said()

    return write


def _does(work: Callable[[Path], object]) -> Callable[[Path], Said]:
    def do(workspace: Path) -> Said:
        work(workspace)
        return Said()

    return do


def _returns(said: Said) -> Callable[[Path], Said]:
    return lambda _: said


def _replaced(workspace: Path) -> None:
    shutil.rmtree(workspace)
    workspace.mkdir()
    (workspace / "in.txt").write_text("in")


def _not_text(workspace: Path) -> None:
    (workspace / os.fsdecode(b"caf\xe9.txt")).write_text("x")


WAYS: dict[str, Callable[[Path], Said]] = {
    "nothing": _returns(Said()),
    "a new file": _writes("out.txt"),
    "the same bytes again": _does(lambda w: (w / "in.txt").write_text("in")),
    "removes its input": _does(lambda w: (w / "in.txt").unlink()),
    "an empty folder": _does(lambda w: (w / "folder").mkdir()),
    "beside its directory": _does(lambda w: (w.parent / "beside.txt").write_text("x")),
    "a named pipe": _does(lambda w: os.mkfifo(w / "pipe")),
    "backslash": _writes("a\\b"),
    "drive": _writes("c:x"),
    "not text": _does(_not_text),
    "reserved": _writes("_lakefs_actions/mine.yaml"),
    "a marker further down": _writes("folder/.perago-attempt.json"),
    "removes its directory": _does(shutil.rmtree),
    "replaces its directory": _does(_replaced),
    "removes the marker": _does(lambda w: (w / ".perago-attempt.json").unlink(missing_ok=True)),
    "link to a file": _does(lambda w: (w / "link").symlink_to("in.txt")),
    "link to a folder": _does(lambda w: (w / "link").symlink_to(w.parent)),
    "fails": _fails(TaskFailed("cannot")),
    "gives up": _fails(TaskTerminalError("never")),
    "raises": _fails(KeyError("why")),
    "exits": _does(lambda _: sys.exit(3)),
    "nan": _returns(Said(value=float("nan"))),
    "wrong result": _returns(Said.model_construct(value="many")),
    "half a character": _returns(Said(text="\ud800")),
    "four megabytes": _returns(Said(text="".join(map(str, range(800_000))))),
    "eleven megabytes": _returns(Said(text="x" * 11 * 1024 * 1024)),
    "litter": _writes("left.tmp"),
}


def _act(workspace: Path, params: How) -> Said:
    return WAYS[params.how](workspace)


@task(
    name="awkward.folder", owner_email=OWNER, controls=ONCE, workspace=WorkspaceSpec(prefix="data")
)
def in_a_folder(workspace: Path, params: How) -> Said:
    """Works on a folder of the repository."""
    return _act(workspace, params)


@task(name="awkward.root", owner_email=OWNER, controls=ONCE, workspace=WorkspaceSpec())
def in_the_root(workspace: Path, params: How) -> Said:
    """Works on the whole repository."""
    return _act(workspace, params)


@task(
    name="awkward.reader",
    owner_email=OWNER,
    controls=ONCE,
    workspace=WorkspaceSpec(prefix="data", read_only=True),
)
def reading_only(workspace: Path, params: How) -> Said:
    """May not write."""
    return _act(workspace, params)


@task(
    name="awkward.guarded",
    owner_email=OWNER,
    controls=ONCE,
    workspace=WorkspaceSpec(
        prefix="data",
        pre=[require_file("in.txt"), forbid_glob("*.lock")],
        post=[require_file("out.txt"), forbid_glob("*.tmp")],
    ),
)
def guarded(workspace: Path, params: How) -> Said:
    """Between guardrails."""
    return _act(workspace, params)


@task(name="awkward.free", owner_email=OWNER, controls=ONCE)
def without_workspace(params: How) -> Said:
    """Has no workspace."""
    return WAYS[params.how](Path())
