"""Which pipeline moves a workspace: this process, or Spark above a number of objects."""

from collections.abc import Collection
from pathlib import Path
from typing import final

from perago.adapters.workspace.inventory import WorkspaceTooLargeError
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.domain.sync_plan import SyncPlan
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)


@final
class SizedPipeline(WorkspacePipeline):
    """The local pipeline up to a number of objects, another one above.

    The size of a workspace is known only when it is listed. So the local pipeline lists, and gives
    up at its bound before anything moves. Every later step goes to the pipeline that materialised.
    """

    def __init__(
        self, local: LocalWorkspacePipeline, large: WorkspacePipeline, *, objects_max: int
    ) -> None:
        local.refuse_more_than(objects_max)
        self._local = local
        self._large = large
        self._by_large: set[Path] = set()

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        self._by_large.discard(directory)
        try:
            return await self._local.materialise(source, directory)
        except WorkspaceTooLargeError:
            materialised = await self._large.materialise(source, directory)
            self._by_large.add(directory)
            return materialised

    async def plan(self, materialised: Materialised) -> SyncPlan:
        return await self._of(materialised).plan(materialised)

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        return await self._of(materialised).transfer(materialised, plan, area)

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        await self._of(materialised).verify(materialised, plan, area)

    async def listing(self, source: WorkspaceSource) -> Collection[str]:
        return await self._local.listing(source)

    async def forget(self, materialised: Materialised) -> None:
        await self._of(materialised).forget(materialised)
        self._by_large.discard(materialised.directory)

    async def describe(self, materialised: Materialised) -> str | None:
        return await self._of(materialised).describe(materialised)

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        self._by_large.discard(directory)
        return await self._local.reopen(source, directory, described)

    def _of(self, materialised: Materialised) -> WorkspacePipeline:
        return self._large if materialised.directory in self._by_large else self._local
