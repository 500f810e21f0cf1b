"""What a worker and its executors are called, where they log, and which code they run."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from perago.adapters.system import SystemIdentities
from perago.app.authoring.task_declaration import task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.settings.runtime_config import load_runtime_config
from perago.app.worker_description import (
    CHARACTERS_MAX,
    code_version_of,
    prepare_worker_runtime,
    restart_backoff_seconds,
    safe_segment,
    worker_child_specs,
    worker_incarnation,
)
from perago.domain.errors import RuntimeConfigError


def test_two_starts_of_one_container_within_a_minute_have_different_names() -> None:
    """Host and process id are the same then, and an execution id begins with the time."""
    identities = SystemIdentities()
    names = {worker_incarnation("songs", identities.new_execution_id()) for _ in range(100)}
    assert len(names) == 100


def test_a_long_prefix_cuts_nothing_off_the_end() -> None:
    first, second = (worker_incarnation("p" * 200, chance) for chance in ("a" * 32, "b" * 32))
    assert len(first) == CHARACTERS_MAX
    assert first != second


def test_executors_are_numbered_from_one() -> None:
    specs = worker_child_specs(base_env={"A": "1"}, module_target="x.y", process_count=2)
    assert [(each.slot, each.worker_id) for each in specs] == [(1, "xy0001"), (2, "xy0002")]
    assert specs[0].env == {
        "A": "1",
        "PERAGO_WORKER_ID_PREFIX": "xy",
        "PERAGO_WORKER_ID": "xy0001",
    }


def test_a_worker_needs_an_executor() -> None:
    with pytest.raises(RuntimeConfigError, match="worker process count must be at least 1"):
        worker_child_specs(base_env={}, module_target="x", process_count=0)


def test_restarts_wait_longer_up_to_half_a_minute() -> None:
    assert [restart_backoff_seconds(each) for each in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    with pytest.raises(ValueError, match="restart_count must be >= 0"):
        restart_backoff_seconds(-1)


@pytest.mark.parametrize(
    ("text", "segment"),
    [("a.b c", "a.b_c"), ("w/1 x", "w_1_x"), ("é", "unknown"), ("..", "unknown"), ("a=b", "a=b")],
)
def test_a_segment_is_safe_in_a_path(text: str, segment: str) -> None:
    assert safe_segment(text) == segment


def test_the_log_file_says_module_worker_process_and_time(tmp_path: Path) -> None:
    config = load_runtime_config(
        "a.b", cwd=tmp_path, process_env={"PERAGO_LOG_ROOT": str(tmp_path)}, probe_roots=False
    )
    runtime = prepare_worker_runtime(
        config=config, module_target="a.b c", env={"PERAGO_WORKER_ID": "w/1 x"}
    )
    assert (runtime.worker_id, runtime.swept_workspaces) == ("w/1 x", [])
    assert runtime.log_file.parent == tmp_path / "a.b_c" / "worker_id=w_1_x"
    assert re.fullmatch(
        rf"pid={os.getpid()}__started=\d{{8}}T\d{{6}}\+0000\.jsonl", runtime.log_file.name
    )
    assert runtime.log_file.parent.is_dir()
    assert not runtime.log_file.exists()


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


def test_without_git_or_without_a_task_nothing_is_reported(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(module.parent, "init", "-q")
    git(module.parent, "add", module.name)
    git(module.parent, "commit", "-q", "-m", "the task")
    task = task_in(module)
    assert code_version_of([]) is None
    monkeypatch.setenv("PATH", str(module.parent))
    assert code_version_of([task]) is None
