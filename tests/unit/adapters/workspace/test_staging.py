"""What is staged keeps what its objects said of themselves, and is looked at."""

import hashlib
from pathlib import Path

import pytest

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import (
    MemoryBranches,
    MemoryCommits,
    MemoryObjects,
    MemoryTransport,
)
from perago.adapters.memory.system import SequentialConcurrency, WorkerHandle
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.adapters.workspace.staging import Staging
from perago.domain.lakefs import BranchName, StagedReference
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.errors import DamagedObjectError
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectUpload
from perago.ports.workspace import StagingArea, WorkspaceSource

STAGING = BranchName("staging")
BASE = [f"{number:06}" for number in range(40_000)]
CHANGED = BASE[:: len(BASE) // 40]  # a window of the listing for each of them


async def check(staged: dict[str, bytes]) -> None:
    """Stage some bytes over the changed paths and verify the plan that says `new` for all."""
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    commit = builder.commit({f"ws/{path}": b"old" for path in CHANGED})
    await MemoryBranches(lakefs, handle).create(builder.id, STAGING, commit)
    for path, content in staged.items():
        builder.write(f"ws/{path}", content, branch=STAGING)
    md5 = hashlib.md5(b"new", usedforsecurity=False).hexdigest()
    plan = SyncPlan(upload=tuple(FileFacts(path, md5, 3) for path in CHANGED))
    area = StagingArea(StagedReference(builder.id, STAGING, commit), "ws")
    objects, concurrency = MemoryObjects(lakefs, handle), SequentialConcurrency()
    transport = MemoryTransport(objects, concurrency)
    staging = Staging(objects, MemoryCommits(lakefs, handle), transport, concurrency)
    await staging.check(BASE, plan, area)


async def test_changes_in_forty_places_are_as_planned() -> None:
    await check(dict.fromkeys(CHANGED, b"new"))


@pytest.mark.parametrize("path", [CHANGED[0], CHANGED[20], CHANGED[-1]])
async def test_other_bytes_in_any_of_forty_places_are_found(path: str) -> None:
    with pytest.raises(DamagedObjectError, match=f"not what was planned at 'ws/{path}'"):
        await check({**dict.fromkeys(CHANGED, b"new"), path: b"bad"})


MAIN = BranchName("main")


@pytest.mark.parametrize(
    ("stored", "published"),
    [
        ("text/markdown; variant=spaß", "text/markdown; variant=spaß"),
        ("text/plain\r\nX-Other: 1", DEFAULT_CONTENT_TYPE),
        ("text/plain\n", DEFAULT_CONTENT_TYPE),
        ("\0", DEFAULT_CONTENT_TYPE),
    ],
)
async def test_a_content_type_that_no_header_can_carry_is_not_kept_by_a_change(
    tmp_path: Path, stored: str, published: str
) -> None:
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    objects, commits = MemoryObjects(lakefs, handle), MemoryCommits(lakefs, handle)
    builder.commit({})
    (tmp_path / "source").write_bytes(b"old")
    await objects.upload(builder.id, MAIN, ObjectUpload("d/a", tmp_path / "source", stored))
    commit = await commits.commit(CommitRequest(builder.id, MAIN, "old", {}))
    concurrency = SequentialConcurrency()
    transport = MemoryTransport(objects, concurrency)
    pipeline = LocalWorkspacePipeline(objects, commits, concurrency, transport)
    (tmp_path / "workspace").mkdir()
    source = WorkspaceSource(builder.id, commit, "d")
    materialised = await pipeline.materialise(source, tmp_path / "workspace")
    (tmp_path / "workspace" / "a").write_bytes(b"new")
    plan = await pipeline.plan(materialised)
    await MemoryBranches(lakefs, handle).create(builder.id, BranchName("staging"), commit)
    staged = StagedReference(builder.id, BranchName("staging"), commit)
    await pipeline.transfer(materialised, plan, StagingArea(staged, "d"))
    (entry,) = (await objects.list_page(builder.id, "staging", prefix="d/")).items
    assert (entry.content_type, entry.size) == (published, 3)
