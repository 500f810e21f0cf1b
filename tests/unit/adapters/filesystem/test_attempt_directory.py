"""Attempt directories that bodies, crashes and older releases leave, and the removal of one."""

import errno
import json
import os
import resource
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unprivileged import as_nobody

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


LEVELS = 1500
OPEN_FILES = Path("/proc/self/fd")


def deepen(directory: Path, name: str = "d", levels: int = LEVELS) -> None:
    """Directories within each other, as a body makes them that changes its directory."""
    current = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=current)
        below = os.open(name, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=current))
    os.close(current)


@pytest.mark.parametrize("name", ["d", "n" * 200], ids=["deep", "longer than any path"])
def test_a_very_deep_tree_is_removed_with_few_open_files(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    deepen(root, name)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sum(1 for _ in OPEN_FILES.iterdir()) + 8, hard))
    try:
        remove_tree(root)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not root.exists()


def closed(root: Path, depth: int) -> None:
    """Folders of mode 000 within each other, a file in the innermost."""
    folders = [root / "/".join(["d"] * count) for count in range(1, depth + 1)]
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[-1] / "file").write_bytes(b"x")
    for folder in reversed(folders):
        folder.chmod(0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_closed_folders_within_each_other_are_removed_without_roots_rights(depth: int) -> None:
    def work(place: Path) -> None:
        root = place / "root"
        root.mkdir()
        closed(root, depth)
        remove_tree(root)
        assert not root.exists()

    as_nobody(work)


def test_links_are_removed_and_what_they_point_at_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "precious").write_bytes(b"x")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "to-folder").symlink_to(outside)
    (root / "to-file").symlink_to(tmp_path / "precious")
    (root / "nowhere").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    remove_tree(root)
    assert not root.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
    assert (tmp_path / "precious").read_bytes() == b"x"


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(NotADirectoryError):
        remove_tree(link)
    assert target.is_dir()


@pytest.mark.parametrize("there", [Path("gone"), Path("gone/below")], ids=["it", "its parent"])
def test_what_vanished_is_removed(tmp_path: Path, there: Path) -> None:
    remove_tree(tmp_path / there)


def marker(number: int) -> AttemptMarker:
    attempt = AttemptSnapshot("w", f"t{number}", "r", "x", AttemptStatus.IN_PROGRESS)
    return AttemptMarker(attempt, ExecutionId(f"e{number}"), owner_worker_id="me")


def spoil_with_a_deep_tree(directory: Path) -> None:
    deepen(directory)


def spoil_with_a_deep_marker(directory: Path) -> None:
    (directory / ATTEMPT_MARKER).write_text("[" * 100_000)


def spoil_with_a_number_too_large(directory: Path) -> None:
    text = (directory / ATTEMPT_MARKER).read_text()
    (directory / ATTEMPT_MARKER).write_text(
        text.replace('"owner_pid": ', '"owner_pid": 9999999999')
    )


def spoil_its_lock(directory: Path) -> None:
    lock = directory.parent / ".perago-attempts" / f"{directory.name}.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir(parents=True)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_with_a_deep_tree,
        spoil_with_a_deep_marker,
        spoil_with_a_number_too_large,
        spoil_its_lock,
    ],
    ids=["a deep tree", "a deep marker", "a large number", "its lock"],
)
async def test_nothing_that_a_body_leaves_stops_the_pass_for_the_others(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """The oldest directory is the odd one; without records, as after a power cut."""
    clock = VirtualClock()
    dead = LocalAttemptDirectories(tmp_path, clock, SequentialConcurrency())
    made: list[Path] = []
    for number in range(3):
        made.append(await dead.create(marker(number)))
        clock.advance(10)
    for record in (tmp_path / ".perago-attempts").iterdir():
        record.unlink()
    spoil(made[0])
    clock.advance(timedelta(days=2).total_seconds())
    alive = LocalAttemptDirectories(tmp_path, clock, SequentialConcurrency())
    swept = await sweep_directories(alive, RetentionTimes())
    assert set(made[1:]) <= set(swept.removed)
    told = {*swept.removed, *(path for path, _ in swept.failed)}
    assert set(made) <= told, "the odd one went as well, or its error is reported"
