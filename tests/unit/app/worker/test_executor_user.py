"""A workspace in the hands of the executors' user, and back: what each side can do when."""
# Root acts as two users. A suite that is not run as root has one, and cannot attack itself.

import os
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unprivileged import NOBODY

from perago.adapters.filesystem.attempt_directory import remove_tree
from perago.app.settings.settings import load_settings
from perago.app.worker.executor_user import (
    HOME_DIRECTORY,
    ExecutorUser,
    executor_user_of,
    find_executor_user,
    hand_over,
    take_back,
)
from perago.domain.errors import RuntimeConfigError
from perago.ports.errors import LocalDiskError

IS_ROOT = os.geteuid() == 0
USER = ExecutorUser("other", *((NOBODY, NOBODY) if IS_ROOT else (os.getuid(), os.getgid())), Path())


@pytest.fixture
def workspace() -> Generator[Path]:
    """An attempt directory with a file at the top and one below, in a root that all can enter."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o711)
        directory = root / "task_id=t-exec=e"
        (directory / "data").mkdir(parents=True)
        directory.chmod(0o700)
        (directory / "top.txt").write_text("top")
        (directory / "data" / "below.txt").write_text("below")
        yield directory


def shell(script: str, folder: Path) -> "subprocess.Popen[bytes]":
    """A shell of the executors' user that runs its script once it gets a line."""
    command = ["/bin/sh", "-uc", f"cd {folder} || exit 9; echo inside; read go; {script}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        user=USER.uid if IS_ROOT else None,
        group=USER.gid if IS_ROOT else None,
        extra_groups=[] if IS_ROOT else None,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"inside\n"
    return process


def go(process: "subprocess.Popen[bytes]") -> int:
    """Let a shell run its script; its exit code."""
    process.communicate(b"go\n", timeout=10)
    return process.returncode


def test_the_user_may_do_everything_in_a_workspace_that_was_handed_over(workspace: Path) -> None:
    hand_over(workspace, USER)
    script = "echo new > top.txt && rm data/below.txt && mkdir -p a/b && echo x > a/b/c"
    assert go(shell(script, workspace)) == 0
    assert (workspace / "top.txt").stat().st_uid == USER.uid
    assert workspace.stat().st_mode & 0o777 == 0o700


def test_the_worker_reads_and_removes_what_the_user_left_with_any_mode(workspace: Path) -> None:
    hand_over(workspace, USER)
    assert go(shell("mkdir a && echo x > a/b && chmod 000 a/b && chmod 500 a", workspace)) == 0
    take_back(workspace, USER)
    assert (workspace / "a").stat().st_uid == os.geteuid()
    (workspace / "a" / "b").chmod(0o600)
    assert (workspace / "a" / "b").read_text() == "x\n"
    remove_tree(workspace)
    assert not workspace.exists()


def test_a_program_that_a_body_left_can_put_nothing_into_a_workspace_that_was_taken_back(
    workspace: Path,
) -> None:
    hand_over(workspace, USER)
    left = shell("ln -s /etc/shadow new.txt || rm below.txt || mv below.txt x", workspace / "data")
    take_back(workspace, USER)
    assert (go(left) != 0) is IS_ROOT
    if IS_ROOT:
        assert [each.name for each in (workspace / "data").iterdir()] == ["below.txt"]


def test_a_link_is_handed_over_and_taken_back_without_what_it_leads_to(
    workspace: Path, tmp_path: Path
) -> None:
    before = tmp_path.stat()
    hand_over(workspace, USER)
    assert go(shell(f"ln -s {tmp_path} link", workspace)) == 0
    take_back(workspace, USER)
    assert tmp_path.stat() == before


def test_a_second_name_of_a_file_of_another_user_is_refused(workspace: Path) -> None:
    """The file stands for a key that the worker alone may read: it must not be published."""
    hand_over(workspace, USER)
    if not IS_ROOT:
        take_back(workspace, USER)
        return
    os.chown(workspace / "data" / "below.txt", 0, 0)
    with pytest.raises(LocalDiskError, match=r"below\.txt belongs to the user 0, expected other"):
        take_back(workspace, USER)


def test_a_number_is_enough_and_its_home_is_below_the_root(tmp_path: Path) -> None:
    user = find_executor_user("54321", tmp_path)
    assert user == ExecutorUser("54321", 54321, 54321, tmp_path / HOME_DIRECTORY)
    given = {"HOME": "/of/the/worker", "XDG_RUNTIME_DIR": "/run/user/1", "USER": "w", "LANG": "C"}
    home = str(tmp_path / HOME_DIRECTORY)
    expected = {"HOME": home, "USER": "54321", "LOGNAME": "54321", "LANG": "C"}
    assert user.environment(given) == expected


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"PERAGO_EXECUTOR_USER": "no-such-user"}, "there is no user 'no-such-user'"),
        ({"PERAGO_EXECUTOR_USER": "root"}, "executors must not be root"),
        (
            {"PERAGO_EXECUTOR_USER": "54321", "PERAGO_EXECUTION_MODE": "thread"},
            "in thread mode task functions run in the worker itself",
        ),
    ],
)
def test_a_user_that_would_not_keep_keys_from_bodies_is_refused(
    variables: dict[str, str], text: str, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeConfigError, match=text):
        executor_user_of(load_settings(cwd=tmp_path, process_env=variables))
