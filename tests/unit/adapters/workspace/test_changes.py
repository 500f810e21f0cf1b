"""Which files are believed without being read, and which are not read twice."""

import asyncio
import hashlib
import json
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from perago.adapters.memory.system import SequentialConcurrency
from perago.adapters.workspace import changes
from perago.adapters.workspace.changes import (
    ScannedFile,
    WorkspaceIndex,
    compare,
    describe_workspace,
    reopen_workspace,
)
from perago.domain.errors import ReservedPathError
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


CONCURRENCY = SequentialConcurrency()
FILES = 40
FILE_BYTES = 200_000


def md5_of(content: bytes) -> str:
    """The checksum of an object with this content."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def bytes_read() -> int:
    """What this process has read so far, from files and from anything else."""
    facts = Path("/proc/self/io").read_text(encoding="ascii").split()
    return int(facts[facts.index("rchar:") + 1])


async def left_by_a_function(directory: Path) -> WorkspaceIndex:
    """A workspace that was empty, with some files in it."""
    index = WorkspaceIndex(directory, [])
    for number in range(FILES):
        (directory / f"{number}.bin").write_bytes(bytes([number]) * FILE_BYTES)
    await asyncio.sleep(0.05)  # more than a tick of the clock that stamps files
    return index


async def planned(index: WorkspaceIndex) -> tuple[SyncPlan, int]:
    """The plan, and how many bytes were read for it."""
    before = bytes_read()
    plan = await compare(CONCURRENCY, index, "data")
    return plan, bytes_read() - before


async def test_a_file_is_read_once_for_the_record_and_the_plan(tmp_path: Path) -> None:
    index = await left_by_a_function(tmp_path)
    expected, all_bytes = await planned(index)
    assert all_bytes >= FILES * FILE_BYTES
    described = await describe_workspace(CONCURRENCY, index)
    again = [index, reopen_workspace(tmp_path, described)]
    for each in again:
        plan, read = await planned(each)
        assert plan == expected
        assert read < FILE_BYTES


async def test_a_file_that_was_written_since_is_read(tmp_path: Path) -> None:
    index = await left_by_a_function(tmp_path)
    await describe_workspace(CONCURRENCY, index)
    before, _ = await planned(index)
    (tmp_path / "7.bin").write_bytes(b"x" * FILE_BYTES)
    after, _ = await planned(index)
    assert {one.path for one in set(after.upload) - set(before.upload)} == {"7.bin"}


def test_a_digest_of_the_very_tick_in_which_it_was_read_is_not_kept(tmp_path: Path) -> None:
    """A write that follows may leave the stamp as it is."""
    index, file = WorkspaceIndex(tmp_path, []), ScannedFile("a", (1, 5, 5, 7))
    index.remember({file: "md5"}, now=5)
    assert index.digest(file) is None
    index.remember({file: "md5"}, now=6)
    assert index.digest(file) == "md5"


def rewritten(described: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The description with a change, as another machine or another start of it would have it."""
    facts = json.loads(zlib.decompress(b64decode(described)))
    change(facts)
    return b64encode(zlib.compress(json.dumps(facts).encode())).decode()


def of_another_start(facts: dict[str, Any]) -> None:
    facts["boot"] = "of another start of this machine"


async def materialised_and_left(directory: Path) -> WorkspaceIndex:
    """A workspace with one object, to which the task function has added a file."""
    content = directory / "kept.txt"
    content.write_bytes(b"kept")
    await asyncio.sleep(0.05)
    entry = ObjectEntry("data/kept.txt", md5_of(b"kept"), 4)
    fetched = Fetched(FetchOrder(entry, content), entry.checksum, stamp_of(content.lstat()))
    index = WorkspaceIndex(directory, [fetched])
    (directory / "out.txt").write_bytes(b"out")
    await asyncio.sleep(0.05)
    return index


async def test_after_another_start_of_the_machine_bytes_tell_and_not_stamps(tmp_path: Path) -> None:
    index = await materialised_and_left(tmp_path)
    described = await describe_workspace(CONCURRENCY, index)
    reopen_workspace(tmp_path, rewritten(described, of_another_start))

    def lost_in_a_power_cut(facts: dict[str, Any]) -> None:
        facts["fetched"][0][0] = md5_of(b"other")

    other_bytes = rewritten(described, lost_in_a_power_cut)
    reopen_workspace(tmp_path, other_bytes)
    with pytest.raises(WorkspaceLostError, match=r"the bytes of kept\.txt are others"):
        reopen_workspace(tmp_path, rewritten(other_bytes, of_another_start))


async def test_a_machine_that_does_not_name_its_starts_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(changes, "DIGESTED_BYTES_MAX", 0)
    described = await describe_workspace(CONCURRENCY, await materialised_and_left(tmp_path))
    with pytest.raises(WorkspaceLostError, match=r"out\.txt has no digest"):
        reopen_workspace(tmp_path, described)


async def test_after_another_start_of_the_machine_a_file_without_a_digest_is_refused(
    tmp_path: Path,
) -> None:
    index = await materialised_and_left(tmp_path)

    def beyond_the_limit(facts: dict[str, Any]) -> None:
        facts["left"][0][2] = None

    described = await describe_workspace(CONCURRENCY, index)
    undigested = rewritten(described, beyond_the_limit)
    reopen_workspace(tmp_path, undigested)
    with pytest.raises(WorkspaceLostError, match=r"out\.txt has no digest"):
        reopen_workspace(tmp_path, rewritten(undigested, of_another_start))


def digest_in(described: str) -> str | None:
    """The digest of the one file that was left."""
    facts = json.loads(zlib.decompress(b64decode(described)))
    ((_, _, digest),) = facts["left"]
    return cast("str | None", digest)


async def test_a_file_of_this_very_tick_of_the_clock_has_a_digest_whatever_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that follows may leave its stamp as it is, so only the bytes can tell."""
    monkeypatch.setattr(changes, "DIGESTED_BYTES_MAX", 0)
    index, file = WorkspaceIndex(tmp_path, []), tmp_path / "out.txt"
    file.write_bytes(b"a")
    await asyncio.sleep(0.05)
    assert digest_in(await describe_workspace(CONCURRENCY, index)) is None
    for _ in range(10_000):  # a tick may end between the write and the look
        file.write_bytes(b"b")
        if digest_in(await describe_workspace(CONCURRENCY, index)) is not None:
            return
    raise AssertionError("no look came in the tick of its write")


async def test_names_are_refused_although_the_record_has_read_the_files(tmp_path: Path) -> None:
    index = WorkspaceIndex(tmp_path, [])
    (tmp_path / "_lakefs_actions").mkdir()
    (tmp_path / "_lakefs_actions" / "mine.yaml").write_bytes(b"x")
    await asyncio.sleep(0.05)
    await describe_workspace(CONCURRENCY, index)
    with pytest.raises(ReservedPathError):
        await compare(CONCURRENCY, index, "/")
