"""Content types that other clients stored, on objects whose workspace changes."""

from pathlib import Path

import pytest

from perago.adapters.local.workspace_pipeline import LocalWorkspacePipeline
from perago.adapters.memory.branches import MemoryBranches
from perago.adapters.memory.commits import MemoryCommits
from perago.adapters.memory.concurrency import SequentialConcurrency
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.objects import MemoryObjects
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.references import BranchName, StagedReference
from perago.ports.commits import CommitRequest
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectUpload
from perago.ports.workspace_pipeline import StagingArea, WorkspaceSource

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
    pipeline = LocalWorkspacePipeline(objects, commits, SequentialConcurrency())
    (tmp_path / "workspace").mkdir()
    source = WorkspaceSource(builder.id, commit, "d")
    materialised = await pipeline.materialise(source, tmp_path / "workspace")
    (tmp_path / "workspace" / "a").write_bytes(b"new")
    plan = await pipeline.plan(materialised)
    await MemoryBranches(lakefs, handle).create(builder.id, BranchName("staging"), commit)
    staged = StagedReference(builder.id, BranchName("staging"), commit)
    await pipeline.transfer(materialised, plan, StagingArea(staged, "d"))
    (entry,) = (await objects.list_page(builder.id, "staging", prefix="d/")).entries
    assert (entry.content_type, entry.size) == (published, 3)
