"""The git commit of the task modules, where git knows it."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from perago.app.authoring.task_declaration import task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.code_version import code_version_of

MODULE = """
from pydantic import BaseModel
from perago import task


class Params(BaseModel):
    rows: int = 1


@task(name="clean", owner_email="team@example.org")
def clean(params: Params) -> Params:
    return params
"""


def git(folder: Path, *words: str) -> str:
    """Run git with an identity of its own."""
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A file with a task, in no working tree yet."""
    file = tmp_path / "team" / "task_of_a_team.py"
    file.parent.mkdir()
    file.write_text(MODULE)
    return file


def task_in(file: Path) -> TaskDefinition:
    """The task that the file declares."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return task_of(vars(loaded)["clean"])


def test_a_module_that_git_tracks_has_the_commit_of_its_working_tree(module: Path) -> None:
    task = task_in(module)
    assert code_version_of([task]) is None, "no working tree"
    git(module.parent, "init", "-q")
    assert code_version_of([task]) is None, "git does not track it"
    git(module.parent, "add", module.name)
    assert code_version_of([task]) is None, "there is no commit yet"
    git(module.parent, "commit", "-q", "-m", "the task")
    git(module.parent, "tag", "v1")
    commit = git(module.parent, "rev-parse", "HEAD")
    assert code_version_of([task]) == commit
    module.write_text(MODULE + "\n")
    assert code_version_of([task]) == f"{commit}-dirty"


def test_without_git_or_without_a_task_nothing_is_told(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(module.parent, "init", "-q")
    git(module.parent, "add", module.name)
    git(module.parent, "commit", "-q", "-m", "the task")
    task = task_in(module)
    assert code_version_of([]) is None
    monkeypatch.setenv("PATH", str(module.parent))
    assert code_version_of([task]) is None
