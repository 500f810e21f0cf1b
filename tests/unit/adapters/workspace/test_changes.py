"""Which files are believed without being read."""

import os
from pathlib import Path

import pytest

from perago.adapters.workspace.changes import WorkspaceIndex
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.errors import WorkspaceLostError
from perago.ports.objects import Fetched, FetchOrder, ObjectEntry, stamp_of


def written(directory: Path, name: str) -> Fetched:
    path = directory / name
    path.write_bytes(b"content")
    order = FetchOrder(ObjectEntry(f"data/{name}", "md5", 7), str(path))
    return Fetched(order, "md5", stamp_of(path.lstat()))


def filled(directory: Path) -> WorkspaceIndex:
    """An index of two files, the first of them older by a clock tick."""
    old = written(directory, "old")
    while True:
        new = written(directory, "new")
        if (directory / "new").lstat().st_ctime_ns > (directory / "old").lstat().st_ctime_ns:
            return WorkspaceIndex(directory, [old, new])


def test_an_untouched_file_is_not_read(tmp_path: Path) -> None:
    untouched, _ = filled(tmp_path).survey()
    assert set(untouched) == {"old"}


def test_a_file_of_the_last_clock_tick_is_never_believed(tmp_path: Path) -> None:
    _, suspects = filled(tmp_path).survey()
    assert [file.path for file in suspects] == ["new"]


def test_a_write_with_the_old_times_put_back_is_found(tmp_path: Path) -> None:
    index = filled(tmp_path)
    before = (tmp_path / "old").lstat()
    (tmp_path / "old").write_bytes(b"CONTENT")
    os.utime(tmp_path / "old", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "old" in [file.path for file in index.survey()[1]]


def test_a_replaced_file_with_the_old_times_is_found(tmp_path: Path) -> None:
    index = filled(tmp_path)
    before = (tmp_path / "old").lstat()
    (tmp_path / "other").write_bytes(b"CONTENT")
    os.utime(tmp_path / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "other").rename(tmp_path / "old")
    assert "old" in [file.path for file in index.survey()[1]]


def test_a_directory_in_the_place_of_another_is_not_the_same(tmp_path: Path) -> None:
    place = tmp_path / "attempt"
    place.mkdir()
    index = WorkspaceIndex(place, [])
    index.require_same_directory()
    place.rename(tmp_path / "moved")
    with pytest.raises(WorkspaceLostError):
        index.require_same_directory()
    place.mkdir()
    with pytest.raises(WorkspaceLostError):
        index.require_same_directory()


def test_what_a_plan_leaves_alone_is_counted(tmp_path: Path) -> None:
    names = ("kept", "changed", "gone", "kept too")
    index = WorkspaceIndex(tmp_path, [written(tmp_path, name) for name in names])
    changed, added = FileFacts("changed", "md5", 7), FileFacts("added", "md5", 7)
    assert index.left_alone(SyncPlan(upload=(changed, added), delete=("gone",))) == 2
