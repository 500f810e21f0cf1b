"""The registry of workspace pipelines: name -> how to open one over a lakeFS."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.contract.lakefs_world import LakeFSWorld

from perago.adapters.local.local_cache import open_local_cache
from perago.adapters.local.workspace_pipeline import LocalWorkspacePipeline
from perago.adapters.memory.concurrency import SequentialConcurrency
from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.ports.workspace_pipeline import WorkspacePipeline

OpenPipeline = Callable[[LakeFSWorld, Path], AbstractAsyncContextManager[WorkspacePipeline]]


@asynccontextmanager
async def _sequential(world: LakeFSWorld, cache: Path) -> AsyncGenerator[WorkspacePipeline]:
    del cache
    yield LocalWorkspacePipeline(world.objects, world.commits, SequentialConcurrency())


@asynccontextmanager
async def _side_by_side(world: LakeFSWorld, cache: Path) -> AsyncGenerator[WorkspacePipeline]:
    del cache
    concurrency = AsyncioConcurrency()
    yield LocalWorkspacePipeline(world.objects, world.commits, concurrency)
    concurrency.close()


@asynccontextmanager
async def _cached(world: LakeFSWorld, cache: Path) -> AsyncGenerator[WorkspacePipeline]:
    concurrency = AsyncioConcurrency()
    yield LocalWorkspacePipeline(
        world.objects, world.commits, concurrency, cache=open_local_cache(cache, "world")
    )
    concurrency.close()


PIPELINES: Mapping[str, OpenPipeline] = {
    "local, one by one": _sequential,
    "local, side by side": _side_by_side,
    "local, with its cache": _cached,
}
