"""Which of two pipelines moves a workspace follows from its size, at no cost below the bound."""

from pathlib import Path

import pytest

from perago.adapters.local.inventory import WorkspaceTooLargeError
from perago.adapters.local.local_cache import open_local_cache
from perago.adapters.local.sized_pipeline import SizedPipeline
from perago.adapters.local.workspace_pipeline import LocalWorkspacePipeline
from perago.adapters.memory.commits import MemoryCommits
from perago.adapters.memory.concurrency import SequentialConcurrency
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.objects import MemoryObjects
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.ports.errors import WorkspaceLostError
from perago.ports.workspace_pipeline import Materialised, WorkspaceSource

BOUND = 3


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(("files", "by_large"), [(0, False), (3, False), (4, True)])
async def test_the_bound_parts_the_two(
    tmp_path: Path, *, cached: bool, files: int, by_large: bool
) -> None:
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    commit = builder.commit({"other": b"x", **{f"data/{n}": b"x" for n in range(files)}})
    source = WorkspaceSource(builder.id, commit, "data")
    ports = MemoryObjects(lakefs, handle), MemoryCommits(lakefs, handle), SequentialConcurrency()
    cache = open_local_cache(tmp_path / "cache", "memory") if cached else None
    if cache is not None:  # whoever has moved it before left a manifest
        await LocalWorkspacePipeline(*ports, cache=cache).materialise(source, room(tmp_path, "0"))
    local, large = LocalWorkspacePipeline(*ports, cache=cache), LocalWorkspacePipeline(*ports)
    sized = SizedPipeline(local, large, objects_max=BOUND)

    materialised = await sized.materialise(source, room(tmp_path, "1"))

    assert len(list(materialised.directory.iterdir())) == files
    assert await knows(large, materialised) == by_large
    assert await knows(local, materialised) == (not by_large)
    assert (await sized.plan(materialised)).is_empty
    await sized.forget(materialised)
    assert not await knows(large, materialised)


def room(place: Path, name: str) -> Path:
    """A fresh directory."""
    (place / name).mkdir()
    return place / name


async def knows(pipeline: LocalWorkspacePipeline, materialised: Materialised) -> bool:
    """Whether a pipeline has materialised a workspace."""
    try:
        await pipeline.plan(materialised)
    except WorkspaceLostError:
        return False
    return True


async def test_the_local_pipeline_gives_up_before_anything_moves(tmp_path: Path) -> None:
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    source = WorkspaceSource(builder.id, builder.commit({f"{n:05}": b"" for n in range(2500)}), "/")
    local = LocalWorkspacePipeline(
        MemoryObjects(lakefs, handle), MemoryCommits(lakefs, handle), SequentialConcurrency()
    )
    local.refuse_more_than(999)
    with pytest.raises(WorkspaceTooLargeError, match="more than 999"):
        await local.materialise(source, room(tmp_path, "1"))
    assert list((tmp_path / "1").iterdir()) == []
