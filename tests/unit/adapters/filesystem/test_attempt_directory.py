"""Attempt directories that bodies, crashes and older releases leave behind."""

import errno
import json
import os
import resource
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from perago.adapters.filesystem import attempt_directory
from perago.adapters.filesystem.attempt_directory import (
    LocalAttemptDirectories,
    StampedMarker,
    marker_text,
    read_marker,
    remove_tree,
)
from perago.adapters.memory.system import START, SequentialConcurrency, VirtualClock
from perago.app.gc.local_pass import sweep_directories
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.retention import RetentionTimes
from perago.ports.errors import LocalDiskError
from perago.ports.workspace import AttemptMarker, beside

MARKER = AttemptMarker(
    AttemptSnapshot("w", "t", "ref", "clean", AttemptStatus.IN_PROGRESS, retry_count=1, seq=3),
    ExecutionId("e1"),
    "worker-1",
)
LEGACY = {
    "execution_id": "e9",
    "owner_pid": 2**22 + 1,
    "owner_token": "x",
    "owner_worker_id": "old",
    "retry_count": 0,
    "started_at": "2025-12-31T23:00:00",
    "task_def_name": "clean",
    "task_id": "t9",
    "workflow_instance_id": "w9",
}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def directories(tmp_path: Path, clock: VirtualClock) -> LocalAttemptDirectories:
    return LocalAttemptDirectories(tmp_path, clock, SequentialConcurrency())


def left_of_attempts(root: Path) -> list[Path]:
    """Directories, records and locks."""
    return list(root.rglob("task_id*"))


def legacy(root: Path, **fields: object) -> Path:
    """A directory as 0.6.1 leaves it."""
    directory = root / "task_id=t9-exec=e9"
    directory.mkdir()
    (directory / ATTEMPT_MARKER).write_text(json.dumps({**LEGACY, **fields}))
    return directory


async def test_what_0_6_1_left_is_found_by_its_age(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    directory = legacy(tmp_path)
    assert await directories.leftovers(older_than_seconds=3601) == []
    (leftover,) = await directories.leftovers(older_than_seconds=3600)
    assert (leftover.path, leftover.age_seconds) == (directory, 3600)
    await directories.remove(directory)
    assert not directory.exists()


async def test_what_a_living_0_6_1_works_in_is_left_alone_until_it_is_too_old(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    """A number that lives may be another process's by now: only its age tells."""
    directory = legacy(tmp_path, owner_pid=os.getpid())  # an hour old
    kept = await sweep_directories(directories, RetentionTimes(timedelta(hours=2)))
    assert (kept.removed, directory.exists()) == ([], True)
    swept = await sweep_directories(directories, RetentionTimes(timedelta(hours=1)))
    assert (swept.removed, directory.exists()) == ([directory], False)


async def test_what_a_dead_0_6_1_left_goes_at_once(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    directory = legacy(tmp_path)
    swept = await sweep_directories(directories, RetentionTimes(timedelta(hours=2)))
    assert (swept.removed, directory.exists()) == ([directory], False)


async def test_a_directory_whose_owner_died_as_it_was_made_is_found(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    """It has no marker yet, and its record does not know which directory it is."""
    name = "task_id=t1-exec=e1"
    record = tmp_path / ".perago-attempts" / f"{name}.json"
    record.parent.mkdir()
    record.write_text(marker_text(StampedMarker(MARKER, 7, START)))
    (tmp_path / name).mkdir()
    (leftover,) = await directories.leftovers(older_than_seconds=0)
    assert leftover.path == tmp_path / name
    await directories.remove(leftover.path)
    assert left_of_attempts(tmp_path) == []


async def test_a_directory_is_written_down_before_it_is_made(
    tmp_path: Path, directories: LocalAttemptDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody would find that of a worker which dies in between."""
    make, written = os.mkdir, list[bool]()

    def seen(folder: Path, mode: int = 0o777) -> None:
        if folder.name.startswith("task_id="):
            written.append((tmp_path / ".perago-attempts" / f"{folder.name}.json").exists())
        make(folder, mode)

    with monkeypatch.context() as seeing:
        seeing.setattr(os, "mkdir", seen)
        directory = await directories.create(MARKER)
    assert written == [True]
    await directories.remove(directory)


async def test_what_stands_beside_a_directory_goes_first(
    directories: LocalAttemptDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no marker: without its directory it would never be found again."""
    directory = await directories.create(MARKER)
    beside(directory).mkdir()

    def refuse(tree: Path) -> None:
        if tree == directory:
            raise OSError(errno.EBUSY, "Busy", str(tree))
        remove_tree(tree)

    with monkeypatch.context() as refusing:
        refusing.setattr(attempt_directory, "remove_tree", refuse)
        with pytest.raises(LocalDiskError, match="busy"):
            await directories.remove(directory)
    assert (directory.exists(), beside(directory).exists()) == (True, False)
    await directories.remove(directory)


async def test_a_disk_that_refuses_leaves_no_directory_and_no_lock(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(LocalDiskError, match="file too large"):
            await directories.create(MARKER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left_of_attempts(tmp_path) == []
    await directories.create(MARKER)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"execution_id": 1}', "\\udcff"])
async def test_an_unreadable_marker_stops_no_sweep(
    tmp_path: Path, directories: LocalAttemptDirectories, text: str
) -> None:
    broken = tmp_path / "task_id=a-exec=b"
    broken.mkdir()
    (broken / ATTEMPT_MARKER).write_text(text)
    directory = legacy(tmp_path)
    found = await directories.leftovers(older_than_seconds=0)
    assert [leftover.path for leftover in found] == [directory]


async def test_a_marker_planted_deeper_is_not_followed(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    directory = await directories.create(MARKER)
    planted = directory / "task_id=x-exec=y"
    planted.mkdir()
    (planted / ATTEMPT_MARKER).write_text(json.dumps(LEGACY))
    (tmp_path / "task_id=link-exec=z").symlink_to(planted)
    assert await directories.leftovers(older_than_seconds=0) == []


async def test_a_directory_that_a_body_closed_is_removed_nevertheless(
    directories: LocalAttemptDirectories,
) -> None:
    directory = await directories.create(MARKER)
    closed = directory / "closed" / "deeper"
    closed.mkdir(parents=True)
    (closed / "file").write_bytes(b"x")
    closed.chmod(stat.S_IRUSR)
    closed.parent.chmod(0)
    await directories.remove(directory)
    assert not directory.exists()


async def test_removal_does_not_follow_links_out(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    directory = await directories.create(MARKER)
    (directory / "link").symlink_to(outside)
    await directories.remove(directory)
    assert (outside / "precious").exists()


async def test_the_oldest_leftover_comes_first(
    tmp_path: Path, directories: LocalAttemptDirectories
) -> None:
    for number, hour in enumerate((22, 20, 21)):
        directory = tmp_path / f"task_id=t-exec={number}"
        directory.mkdir()
        fields = {**LEGACY, "started_at": f"2025-12-31T{hour}:00:00"}
        (directory / ATTEMPT_MARKER).write_text(json.dumps(fields))
    found = await directories.leftovers(older_than_seconds=0)
    assert [leftover.path.name[-1] for leftover in found] == ["1", "2", "0"]


def test_a_marker_reads_back_and_keeps_the_keys_of_0_6_1() -> None:
    stamped = StampedMarker(replace(MARKER, staging_branch="b", repository="r"), 7, START, 1, 2)
    text = marker_text(stamped)
    assert read_marker(text) == stamped
    assert set(LEGACY) <= set(json.loads(text))
    assert list(json.loads(text)) == sorted(json.loads(text))
