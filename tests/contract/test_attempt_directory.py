"""Laws of perago.ports.workspace."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.contract.attempt_owner import crash_after_creating
from tests.contract.local_adapters import DIRECTORIES

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.retention import Owner
from perago.ports.errors import ExistsError, WorkspaceLostError
from perago.ports.workspace import AttemptDirectories, AttemptMarker, beside


@pytest.fixture(params=list(DIRECTORIES))
def adapter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "attempts"


@pytest.fixture
def directories(adapter: str, root: Path) -> AttemptDirectories:
    return DIRECTORIES[adapter](root)


def marker(execution_id: str = "e1", task_id: str = "t1") -> AttemptMarker:
    attempt = AttemptSnapshot(
        workflow_id="w1",
        task_id=task_id,
        reference_name="clean_ref",
        task_type="clean",
        status=AttemptStatus.IN_PROGRESS,
        retry_count=2,
        seq=5,
        iteration=1,
        scheduled_time=17,
    )
    return AttemptMarker(attempt, ExecutionId(execution_id), owner_worker_id="worker-1")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_A1_create_is_exclusive(directories: AttemptDirectories) -> None:
    directory = await directories.create(marker())
    assert [path.name for path in directory.iterdir()] == [ATTEMPT_MARKER]
    with pytest.raises(ExistsError):
        await directories.create(marker())
    assert await directories.create(marker("e2")) != directory


async def test_A2_directories_are_private(directories: AttemptDirectories, root: Path) -> None:
    directory = await directories.create(marker())
    assert [mode(directory), mode(root)] == [0o700, 0o700]


async def test_A3_marker_reads_back(adapter: str, root: Path) -> None:
    crash_after_creating(adapter, root, marker())
    (leftover,) = await DIRECTORIES[adapter](root).leftovers(older_than_seconds=0)
    assert leftover.marker == marker()


async def test_A4_staging_is_recorded(adapter: str, root: Path) -> None:
    crash_after_creating(adapter, root, marker(), staging=("repo", "perago-staging-x"))
    (leftover,) = await DIRECTORIES[adapter](root).leftovers(older_than_seconds=0)
    assert leftover.marker is not None
    assert (leftover.marker.repository, leftover.marker.staging_branch) == (
        "repo",
        "perago-staging-x",
    )


async def test_A5_check_finds_a_vanished_directory(directories: AttemptDirectories) -> None:
    directory = await directories.create(marker())
    await directories.check(directory, ExecutionId("e1"))
    shutil.rmtree(directory)
    with pytest.raises(WorkspaceLostError):
        await directories.check(directory, ExecutionId("e1"))


async def test_A6_check_finds_a_foreign_directory(directories: AttemptDirectories) -> None:
    directory = await directories.create(marker())
    with pytest.raises(WorkspaceLostError):
        await directories.check(directory, ExecutionId("e2"))
    text = (directory / ATTEMPT_MARKER).read_text()
    (directory / ATTEMPT_MARKER).unlink()
    with pytest.raises(WorkspaceLostError):
        await directories.check(directory, ExecutionId("e1"))
    directory.rename(directory.with_name("moved"))
    directory.mkdir()
    (directory / ATTEMPT_MARKER).write_text(text)
    with pytest.raises(WorkspaceLostError):
        await directories.check(directory, ExecutionId("e1"))


async def test_A7_remove_is_idempotent(directories: AttemptDirectories) -> None:
    directory = await directories.create(marker())
    (directory / "deep" / "er").mkdir(parents=True)
    (directory / "deep" / "er" / "file").write_bytes(b"x")
    await directories.remove(directory)
    assert not directory.exists()
    await directories.remove(directory)


async def test_A8_remove_refuses_what_is_not_ours(
    adapter: str, directories: AttemptDirectories, root: Path
) -> None:
    foreign = root / "task_id=t9-exec=e9"
    foreign.mkdir(parents=True)
    with pytest.raises(WorkspaceLostError):
        await directories.remove(foreign)
    assert foreign.is_dir()
    mine = await directories.create(marker())
    with pytest.raises(WorkspaceLostError):
        await DIRECTORIES[adapter](root).remove(mine)
    assert mine.is_dir()


async def test_A9_live_owners_are_no_leftovers(adapter: str, root: Path) -> None:
    directory = await DIRECTORIES[adapter](root).create(marker())
    (directory / ATTEMPT_MARKER).unlink()
    assert await DIRECTORIES[adapter](root).leftovers(older_than_seconds=0) == []


@pytest.mark.parametrize("loses_marker", [False, True], ids=["with marker", "marker removed"])
async def test_A10_dead_owners_are_leftovers(adapter: str, root: Path, loses_marker: bool) -> None:  # noqa: FBT001
    directory = crash_after_creating(adapter, root, marker())
    if loses_marker:
        (directory / ATTEMPT_MARKER).unlink()
    survivor = DIRECTORIES[adapter](root)
    assert await survivor.leftovers(older_than_seconds=3600) == []
    (leftover,) = await survivor.leftovers(older_than_seconds=0)
    assert leftover.path == directory
    await survivor.remove(directory)
    assert await survivor.leftovers(older_than_seconds=0) == []


async def test_A11_names_are_safe(directories: AttemptDirectories, root: Path) -> None:
    created = [
        await directories.create(marker(execution_id, task_id))
        for execution_id, task_id in [
            ("e/../..", "../../t"),
            ("e 1", "a b"),
            ("e_1", "a_b"),
            ("..", "."),
            ("é" * 300, "x" * 300),
        ]
    ]
    assert len(set(created)) == len(created)
    for directory in created:
        assert directory.parent == root
        assert len(os.fsencode(directory.name)) <= 255


@pytest.mark.parametrize(
    ("alive", "owner"), [(True, Owner.UNKNOWN), (False, Owner.GONE)], ids=["lives", "does not"]
)
async def test_A12_an_owner_without_a_lock_is_unknown(
    directories: AttemptDirectories,
    root: Path,
    alive: bool,  # noqa: FBT001
    owner: Owner,
) -> None:
    directory = root / "task_id=t9-exec=e9"
    directory.mkdir(parents=True)
    left = {
        "execution_id": "e9",
        "owner_pid": os.getpid() if alive else 2**22 + 1,
        "owner_worker_id": "old",
        "started_at": "2025-12-31T23:00:00",
        "task_def_name": "clean",
        "task_id": "t9",
        "workflow_instance_id": "w9",
    }
    (directory / ATTEMPT_MARKER).write_text(json.dumps(left))
    (leftover,) = await directories.leftovers(older_than_seconds=0)
    assert (leftover.path, leftover.owner) == (directory, owner)


async def test_A17_what_stands_beside_goes_too(adapter: str, root: Path) -> None:
    directory = crash_after_creating(adapter, root, marker())
    (beside(directory) / "out").mkdir(parents=True)
    (beside(directory) / "out" / "file").write_text("a copy for a checkpoint")
    survivor = DIRECTORIES[adapter](root)
    (leftover,) = await survivor.leftovers(older_than_seconds=0)
    assert leftover.path == directory, "what stands beside is no leftover of its own"
    await survivor.remove(directory)
    assert not directory.exists()
    assert not beside(directory).exists()


async def test_A13_one_directory_stops_no_other(adapter: str, root: Path) -> None:
    directory = crash_after_creating(adapter, root, marker())
    odd = root / "task_id=a-exec=odd"
    odd.mkdir()
    (odd / ATTEMPT_MARKER).write_text("[" * 100_000)
    broken, found = await DIRECTORIES[adapter](root).leftovers(older_than_seconds=0)
    assert (broken.path, broken.error is None) == (odd, False)
    assert (found.path, found.error) == (directory, None)


OUTCOME = ("key-1", '{"result": "\u00fc"}\nsecond line')


async def test_A14_outcomes_outlive_their_owner(adapter: str, root: Path) -> None:
    alive = DIRECTORIES[adapter](root)
    mine = await alive.create(marker("e2"))
    await alive.keep_outcome(mine, *OUTCOME)
    directory = die_with_an_outcome(adapter, root, marker())
    survivor = DIRECTORIES[adapter](root)
    assert await survivor.kept_outcomes("key-1") == [(directory, OUTCOME[1])]
    assert await survivor.kept_outcomes("key") == []
    (leftover,) = await survivor.leftovers(older_than_seconds=0)
    assert (leftover.path, leftover.has_outcome) == (directory, True)
    await survivor.remove(directory)
    assert await survivor.kept_outcomes("key-1") == []


async def test_A15_one_execution_takes_over(adapter: str, root: Path) -> None:
    directory = die_with_an_outcome(adapter, root, marker())
    one, other = DIRECTORIES[adapter](root), DIRECTORIES[adapter](root)
    await one.take_over(directory, marker("e2", "t2"))
    await one.check(directory, ExecutionId("e2"))
    with pytest.raises(WorkspaceLostError):
        await other.take_over(directory, marker("e3"))
    await one.check(directory, ExecutionId("e2"))
    assert await other.kept_outcomes("key-1") == []
    assert await other.leftovers(older_than_seconds=0) == []
    await one.remove(directory)
    with pytest.raises(WorkspaceLostError):
        await one.take_over(directory, marker("e4"))


async def test_A18_what_is_left_may_be_taken_over(adapter: str, root: Path) -> None:
    mine, other = DIRECTORIES[adapter](root), DIRECTORIES[adapter](root)
    directory = await mine.create(marker())
    await mine.keep_outcome(directory, *OUTCOME)
    (beside(directory) / "out").mkdir(parents=True)
    await mine.leave(directory)
    assert not beside(directory).exists()
    for each in (mine, other):
        assert await each.kept_outcomes("key-1") == [(directory, OUTCOME[1])]
        (leftover,) = await each.leftovers(older_than_seconds=0)
        assert (leftover.path, leftover.has_outcome) == (directory, True)
    await mine.take_over(directory, marker("e2"))
    await mine.check(directory, ExecutionId("e2"))
    with pytest.raises(WorkspaceLostError):
        await other.take_over(directory, marker("e3"))


async def test_A16_a_damaged_outcome_is_found(adapter: str, root: Path) -> None:
    directory = die_with_an_outcome(adapter, root, marker())
    kept = root / ".perago-attempts" / f"{directory.name}.outcome"
    assert kept.stat().st_size > 0
    kept.write_bytes(b"\xff\x00 torn")
    assert await DIRECTORIES[adapter](root).kept_outcomes("any key") == [(directory, "")]


def die_with_an_outcome(adapter: str, root: Path, marker: AttemptMarker) -> Path:
    """A directory with an outcome whose owner is gone."""
    return crash_after_creating(adapter, root, marker, outcome=OUTCOME)
