"""The local workspace pipeline: one process brings a commit into a directory, and changes back.

Joins inventory, cache, transport, changes and staging; each of them decides for itself. A second
pipeline hands large workspaces on to another one.
"""

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import final

from perago.adapters.workspace.cache import Filled, LocalCache
from perago.adapters.workspace.changes import WorkspaceIndex, compare, unknown_workspace
from perago.adapters.workspace.disk import disk_errors, name_rules
from perago.adapters.workspace.inventory import (
    Inventories,
    Inventory,
    WorkspaceTooLargeError,
    refuse_unsafe_names,
    take_inventory,
)
from perago.adapters.workspace.port_transport import PortTransport
from perago.adapters.workspace.progress import TransferListener, TransferMeter
from perago.adapters.workspace.staging import StagingVerification, StagingWrites
from perago.domain.sync_plan import SyncPlan
from perago.ports.lakefs import Commits
from perago.ports.objects import Fetched, FetchOrder, Objects, ObjectTransport, stamp_of
from perago.ports.system import Concurrency
from perago.ports.workspace import (
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
        self._transport = transport or PortTransport(objects, concurrency)
        self._cache = cache
        self._listener = listener
        manifests = None if cache is None else cache.manifests
        self._inventories = Inventories(objects, commits, concurrency, manifests)
        self._writes = StagingWrites(objects, self._transport, concurrency, listener)
        self._verification = StagingVerification(objects, commits, concurrency)
        self._indexes: dict[Path, WorkspaceIndex] = {}

    def refuse_more_than(self, objects_max: int) -> None:
        """Raise WorkspaceTooLargeError for larger workspaces, before anything moves."""
        self._inventories.objects_max = objects_max

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        inventory = await self._inventories.take(source)
        # Threads look at it, because cancelling the attempt does not end them: without it they
        # would fill a directory that is being removed.
        given_up = Event()
        orders = await self._concurrency.blocking(
            lambda: _prepare(source, inventory, directory, given_up), abandon=given_up.set
        )
        here, absent = await self._parted(orders, inventory.news)
        # The server works while this host copies.
        filled, first = await self._concurrency.together(
            self._from_cache(here, given_up), self._fetch(source, absent, cached=len(here))
        )
        fetched = [*first, *await self._fetch(source, filled.missing)]
        index = await self._concurrency.blocking(
            lambda: _index_of(directory, [*filled.fetched, *fetched])
        )
        await self._remember(source, inventory, fetched)
        # Last, because an attempt that is cancelled before has nothing to forget.
        self._indexes[directory] = index
        counts = TransferCounts(
            objects=len(inventory.entries),
            bytes=sum(one.order.entry.size for one in fetched),
            reused=len(filled.fetched),
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
        index = self._index(materialised)
        return await self._writes.write(
            materialised.directory, index.entry, plan, area, skipped=index.left_alone(plan)
        )

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        await self._verification.check(self._index(materialised).paths, plan, area)

    async def listing(self, source: WorkspaceSource) -> Sequence[str]:
        inventory = await take_inventory(self._objects, self._concurrency, source)
        return inventory.names()

    async def forget(self, materialised: Materialised) -> None:
        self._indexes.pop(materialised.directory, None)

    def _index(self, materialised: Materialised) -> WorkspaceIndex:
        index = self._indexes.get(materialised.directory)
        if index is None:
            raise unknown_workspace(materialised.directory)
        return index

    async def _parted(
        self, orders: Sequence[FetchOrder], news: Collection[str] | None
    ) -> tuple[Sequence[FetchOrder], Sequence[FetchOrder]]:
        """Those that the cache should have, and those that it has not.

        With a manifest the database is asked for the news only: for 100,000 objects of which ten
        are new that is one query and not two hundred.
        """
        if self._cache is None:
            return (), orders
        contents = self._cache.contents
        if news is None:
            return await self._concurrency.blocking(lambda: contents.parted(orders))
        known = [order for order in orders if order.entry.path not in news]
        fresh = [order for order in orders if order.entry.path in news]
        here, absent = await self._concurrency.blocking(lambda: contents.parted(fresh))
        return [*known, *here], absent

    async def _from_cache(self, orders: Sequence[FetchOrder], given_up: Event) -> Filled:
        if self._cache is None or not orders:
            return Filled((), tuple(orders))
        contents = self._cache.contents
        return await self._concurrency.blocking(
            lambda: contents.fill(orders, given_up), abandon=given_up.set
        )

    async def _fetch(
        self, source: WorkspaceSource, orders: Sequence[FetchOrder], *, cached: int = 0
    ) -> Sequence[Fetched]:
        if not orders:
            return ()
        # Largest first, so that the last connection at work does not hold the longest object.
        orders = sorted(orders, key=lambda order: order.entry.size, reverse=True)
        size = sum(order.entry.size for order in orders)
        meter = TransferMeter(self._listener, "down", files=len(orders), size=size, cached=cached)
        return await self._transport.fetch(source.repository, source.commit, orders, meter.moved)

    async def _remember(
        self, source: WorkspaceSource, inventory: Inventory, fetched: Sequence[Fetched]
    ) -> None:
        cache = self._cache
        if cache is None:
            return

        def remember() -> None:
            # The manifest last, because it says that this host has all of the contents.
            cache.contents.keep(fetched)
            self._inventories.remember(source, inventory)

        await self._concurrency.blocking(partial(cache.soon, remember))


def _prepare(
    source: WorkspaceSource, inventory: Inventory, directory: Path, given_up: Event
) -> list[FetchOrder]:
    """Check all names and make the directories."""
    names = inventory.names()
    with disk_errors(directory):
        refuse_unsafe_names(source.repository, names, name_rules(directory))
        for parent in sorted({name.rpartition("/")[0] for name in names}):
            if given_up.is_set():
                break
            (directory / parent).mkdir(parents=True, exist_ok=True)
    outer = f"{directory}/"
    return [
        FetchOrder(entry, outer + name)
        for entry, name in zip(inventory.entries, names, strict=True)
    ]


def _index_of(directory: Path, fetched: Sequence[Fetched]) -> WorkspaceIndex:
    with disk_errors(directory):
        return WorkspaceIndex(directory, [one if one.stamp else _stamped(one) for one in fetched])


def _stamped(one: Fetched) -> Fetched:
    return Fetched(one.order, one.md5, stamp_of(os.lstat(one.order.where)))


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

    def _of(self, materialised: Materialised) -> WorkspacePipeline:
        return self._large if materialised.directory in self._by_large else self._local
