"""Filling a directory: names checked, directories made, contents from the cache or the server.

Decides the order and what is indexed; where bytes come from is the cache's and the transport's.
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Event
from typing import final

from perago.adapters.local.content_cache import ContentCache, Filled
from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.inventory import Inventory, refuse_unsafe_names
from perago.adapters.local.name_probe import NameProbe
from perago.adapters.local.transfer_meter import TransferListener, TransferMeter
from perago.adapters.local.workspace_index import WorkspaceIndex
from perago.ports.concurrency import Concurrency
from perago.ports.object_transport import Fetched, FetchOrder, ObjectTransport, stamp_of
from perago.ports.workspace_pipeline import TransferCounts, WorkspaceSource


@final
class Materialisation:
    """Fills directories; holds nothing of any attempt."""

    def __init__(
        self,
        transport: ObjectTransport,
        concurrency: Concurrency,
        contents: ContentCache | None,
        listener: TransferListener | None,
    ) -> None:
        self._listener = listener
        self._transport = transport
        self._concurrency = concurrency
        self._contents = contents
        self._names = NameProbe()

    async def fill(
        self, source: WorkspaceSource, inventory: Inventory, directory: Path
    ) -> tuple[WorkspaceIndex, TransferCounts]:
        """Bring every object of the inventory into an empty directory."""
        given_up = Event()  # when this is cancelled, threads end at their next folder or batch
        orders = await self._concurrency.blocking(
            lambda: self._prepare(source, inventory, directory, given_up), abandon=given_up.set
        )
        here, absent = await self._parted(orders, inventory.news)
        # The server works while this host copies.
        filled, first = await self._concurrency.together(
            self._from_cache(here, given_up), self._fetch(source, absent, cached=len(here))
        )
        fetched = [*first, *await self._fetch(source, filled.missing)]
        contents = self._contents
        index = await self._concurrency.blocking(
            lambda: _index_of(directory, [*filled.fetched, *fetched])
        )
        if contents is not None and fetched:
            await self._concurrency.blocking(lambda: contents.keep_soon(fetched))
        counts = TransferCounts(
            objects=len(inventory.entries),
            bytes=sum(one.order.entry.size for one in fetched),
            reused=len(filled.fetched),
            requests=inventory.requests + len(fetched),
        )
        return index, counts

    async def _parted(
        self, orders: Sequence[FetchOrder], news: Collection[str] | None
    ) -> tuple[Sequence[FetchOrder], Sequence[FetchOrder]]:
        """Those that the cache should have, and those that it has not; it is asked for news."""
        contents = self._contents
        if contents is None:
            return (), orders
        if news is None:
            return await self._concurrency.blocking(lambda: contents.parted(orders))
        known = [order for order in orders if order.entry.path not in news]
        fresh = [order for order in orders if order.entry.path in news]
        here, absent = await self._concurrency.blocking(lambda: contents.parted(fresh))
        return [*known, *here], absent

    async def _from_cache(self, orders: Sequence[FetchOrder], given_up: Event) -> Filled:
        contents = self._contents
        if contents is None or not orders:
            return Filled((), tuple(orders))
        return await self._concurrency.blocking(
            lambda: contents.fill(orders, given_up), abandon=given_up.set
        )

    async def _fetch(
        self, source: WorkspaceSource, orders: Sequence[FetchOrder], *, cached: int = 0
    ) -> Sequence[Fetched]:
        if not orders:
            return ()
        orders = sorted(orders, key=lambda order: order.entry.size, reverse=True)
        size = sum(order.entry.size for order in orders)
        meter = TransferMeter(self._listener, "down", files=len(orders), size=size, cached=cached)
        return await self._transport.fetch(source.repository, source.commit, orders, meter.moved)

    def _prepare(
        self, source: WorkspaceSource, inventory: Inventory, directory: Path, given_up: Event
    ) -> list[FetchOrder]:
        """Check all names and make the directories."""
        names = inventory.names()
        with disk_errors(directory):
            refuse_unsafe_names(source.repository, names, self._names.rules(directory))
            for parent in sorted({name.rpartition("/")[0] for name in names}):
                if given_up.is_set():
                    break
                (directory / parent).mkdir(parents=True, exist_ok=True)
            room = f"{directory}/"
            places = [room + name for name in names]
            return list(map(FetchOrder, inventory.entries, places))


def _index_of(directory: Path, fetched: Sequence[Fetched]) -> WorkspaceIndex:
    with disk_errors(directory):
        return WorkspaceIndex(directory, [one if one.stamp else _stamped(one) for one in fetched])


def _stamped(one: Fetched) -> Fetched:
    return Fetched(one.order, one.md5, stamp_of(os.lstat(one.order.where)))
