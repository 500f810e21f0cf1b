"""What a description has read of a directory the comparison after it does not read again."""

import asyncio
from pathlib import Path

import pytest

from perago.adapters.memory.system import SequentialConcurrency
from perago.adapters.workspace.changes import WorkspaceIndex, compare
from perago.adapters.workspace.kept_index import describe_workspace, reopen_workspace
from perago.domain.errors import ReservedPathError
from perago.domain.sync_plan import SyncPlan

CONCURRENCY = SequentialConcurrency()
FILES = 40
FILE_BYTES = 200_000


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


async def planned(directory: Path, index: WorkspaceIndex) -> tuple[SyncPlan, int]:
    """The plan, and how many bytes were read for it."""
    before = bytes_read()
    plan = await compare(CONCURRENCY, index, directory, "data")
    return plan, bytes_read() - before


async def test_a_file_is_read_once_for_the_record_and_the_plan(tmp_path: Path) -> None:
    index = await left_by_a_function(tmp_path)
    expected, all_bytes = await planned(tmp_path, index)
    assert all_bytes >= FILES * FILE_BYTES
    described = await describe_workspace(CONCURRENCY, tmp_path, index)
    again = [index, reopen_workspace(tmp_path, described)]
    for each in again:
        plan, read = await planned(tmp_path, each)
        assert plan == expected
        assert read < FILE_BYTES


async def test_a_file_that_was_written_since_is_read(tmp_path: Path) -> None:
    index = await left_by_a_function(tmp_path)
    await describe_workspace(CONCURRENCY, tmp_path, index)
    before, _ = await planned(tmp_path, index)
    (tmp_path / "7.bin").write_bytes(b"x" * FILE_BYTES)
    after, _ = await planned(tmp_path, index)
    assert {one.path for one in set(after.upload) - set(before.upload)} == {"7.bin"}


async def test_names_are_refused_although_the_record_has_read_the_files(tmp_path: Path) -> None:
    index = WorkspaceIndex(tmp_path, [])
    (tmp_path / "_lakefs_actions").mkdir()
    (tmp_path / "_lakefs_actions" / "mine.yaml").write_bytes(b"x")
    await asyncio.sleep(0.05)
    await describe_workspace(CONCURRENCY, tmp_path, index)
    with pytest.raises(ReservedPathError):
        await compare(CONCURRENCY, index, tmp_path, "/")
