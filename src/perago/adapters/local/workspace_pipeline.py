"""The local workspace pipeline: commits to directories and back, over the ports of lakeFS.

Joins inventory, transport, index, comparison and staging; each of them decides for itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import final

from perago.adapters.local.comparison import compare
from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.inventory import Inventory, refuse_unsafe_names, take_inventory
from perago.adapters.local.name_probe import NameProbe
from perago.adapters.local.port_transport import PortTransport
from perago.adapters.local.staging_verification import StagingVerification
from perago.adapters.local.staging_writes import StagingWrites
from perago.adapters.local.workspace_index import WorkspaceIndex
from perago.domain.sync_plan import SyncPlan
from perago.ports.commits import Commits
from perago.ports.concurrency import Concurrency
from perago.ports.errors import WorkspaceLostError
from perago.ports.object_transport import Fetched, FetchOrder, ObjectTransport
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
    ) -> None:
        self._objects = objects
        self._concurrency = concurrency
        self._transport = transport or PortTransport(objects, concurrency)
        self._writes = StagingWrites(objects, self._transport, concurrency)
        self._verification = StagingVerification(objects, commits, concurrency)
        self._names = NameProbe()
        self._indexes: dict[Path, WorkspaceIndex] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        inventory = await take_inventory(self._objects, source)
        orders = await self._concurrency.blocking(
            lambda: self._prepare(source, inventory, directory)
        )
        fetched = await self._transport.fetch(source.repository, source.commit, orders)
        relatives = {entry.path: relative for relative, entry in inventory.entries}
        index = await self._concurrency.blocking(lambda: _index_of(directory, relatives, fetched))
        self._indexes[directory] = index
        counts = TransferCounts(
            objects=len(fetched),
            bytes=sum(one.order.entry.size for one in fetched),
            requests=inventory.requests + len(fetched),
        )
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
        return await self._writes.write(
            materialised.directory, self._index(materialised), plan, area
        )

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        await self._verification.check(tuple(self._index(materialised).base), plan, area)

    async def listing(self, source: WorkspaceSource) -> Sequence[str]:
        inventory = await take_inventory(self._objects, source)
        return [relative for relative, _ in inventory.entries]

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

    def _prepare(
        self, source: WorkspaceSource, inventory: Inventory, directory: Path
    ) -> list[FetchOrder]:
        """Check all names, make the directories, and put the largest objects first."""
        names = [relative for relative, _ in inventory.entries]
        with disk_errors(directory):
            refuse_unsafe_names(source.repository, names, self._names.rules(directory))
            for parent in sorted({name.rpartition("/")[0] for name in names}):
                (directory / parent).mkdir(parents=True, exist_ok=True)
        orders = [FetchOrder(entry, directory / name) for name, entry in inventory.entries]
        orders.sort(key=lambda order: order.entry.size, reverse=True)
        return orders


def _index_of(
    directory: Path, relatives: dict[str, str], fetched: Sequence[Fetched]
) -> WorkspaceIndex:
    with disk_errors(directory):
        index = WorkspaceIndex(directory)
        for one in fetched:
            entry = one.order.entry
            index.record(relatives[entry.path], entry, one.md5, one.order.target.lstat())
        return index
