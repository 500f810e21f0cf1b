"""Removing whatever a body left: deep, closed, or full of links."""

import os
import resource
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unprivileged import as_nobody

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories, remove_tree
from perago.adapters.memory.system import SequentialConcurrency, VirtualClock
from perago.app.gc.local_pass import sweep_directories
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.retention import RetentionTimes
from perago.ports.workspace import AttemptMarker

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
