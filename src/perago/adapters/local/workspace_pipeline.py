"""The local workspace pipeline: commits to directories and back, over the ports of lakeFS.

Joins inventory, transport, index, comparison and staging; each of them decides for itself.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import final

from perago.adapters.local.comparison import compare
from perago.adapters.local.inventory import take_inventory
from perago.adapters.local.local_cache import LocalCache
from perago.adapters.local.materialisation import Materialisation
from perago.adapters.local.port_transport import PortTransport
from perago.adapters.local.staging_verification import StagingVerification
from perago.adapters.local.staging_writes import StagingWrites
from perago.adapters.local.transfer_meter import TransferListener
from perago.adapters.local.warm_inventory import Inventories
from perago.adapters.local.workspace_index import WorkspaceIndex
from perago.domain.sync_plan import SyncPlan
from perago.ports.commits import Commits
from perago.ports.concurrency import Concurrency
from perago.ports.errors import WorkspaceLostError
from perago.ports.object_transport import ObjectTransport
from perago.ports.objects import Objects
from perago.ports.workspace_pipeline import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)


@final
class LocalWorkspacePipeline(WorkspacePipeline):
    """Workspaces of this process, each with its index in memory."""

    def __init__(
        self,
        objects: Objects,
        commits: Commits,
        concurrency: Concurrency,
        transport: ObjectTransport | None = None,
        cache: LocalCache | None = None,
        *,
        listener: TransferListener | None = None,
    ) -> None:
        self._objects = objects
        self._concurrency = concurrency
        transport = transport or PortTransport(objects, concurrency)
        manifests = None if cache is None else cache.manifests
        contents = self._contents = None if cache is None else cache.contents
        self._inventories = Inventories(objects, commits, concurrency, manifests)
        self._materialisation = Materialisation(transport, concurrency, contents, listener)
        self._writes = StagingWrites(objects, transport, concurrency, listener)
        self._verification = StagingVerification(objects, commits, concurrency)
        self._indexes: dict[Path, WorkspaceIndex] = {}

    def refuse_more_than(self, objects_max: int) -> None:
        """Leave larger workspaces to somebody else: WorkspaceTooLargeError, and nothing moved."""
        self._inventories.objects_max = objects_max

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        inventory = await self._inventories.take(source)
        index, counts = await self._materialisation.fill(source, inventory, directory)
        contents = self._contents
        if contents is not None:
            remember = partial(self._inventories.remember, source, inventory)
            await self._concurrency.blocking(lambda: contents.soon(remember))
        self._indexes[directory] = index
        return Materialised(source, directory, counts)

    async def plan(self, materialised: Materialised) -> SyncPlan:
        return await compare(
            self._concurrency,
            self._index(materialised),
            materialised.directory,
            materialised.source.prefix,
        )

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        index = self._index(materialised)
        return await self._writes.write(
            materialised.directory, index, plan, area, skipped=index.left_alone(plan)
        )

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        await self._verification.check(tuple(self._index(materialised).base), plan, area)

    async def listing(self, source: WorkspaceSource) -> Sequence[str]:
        inventory = await take_inventory(self._objects, self._concurrency, source)
        return inventory.names()

    async def forget(self, materialised: Materialised) -> None:
        self._indexes.pop(materialised.directory, None)

    def _index(self, materialised: Materialised) -> WorkspaceIndex:
        index = self._indexes.get(materialised.directory)
        if index is None:
            raise WorkspaceLostError(
                f"nothing is known of workspace {materialised.directory}: it was not materialised"
                " by this process, or was forgotten; start the attempt again"
            )
        return index
