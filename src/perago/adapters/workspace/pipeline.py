"""The local workspace pipeline: one process brings a commit into a directory, and changes back.

Joins inventory, cache, transport, changes and staging; each of them decides for itself. How far a
transfer has come is reported here. A second pipeline hands large workspaces on to another one.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import final

from perago.adapters.workspace import changes
from perago.adapters.workspace.cache import BYTES_MAX_DEFAULT, CacheStore, ContentCache, Filled
from perago.adapters.workspace.disk import name_rules
from perago.adapters.workspace.inventory import (
    Inventories,
    Inventory,
    Manifests,
    refuse_unsafe_names,
)
from perago.adapters.workspace.staging import Staging
from perago.domain.sync_plan import SyncPlan
from perago.ports import workspace
from perago.ports.errors import disk_errors
from perago.ports.lakefs import Commits
from perago.ports.objects import Fetched, FetchOrder, Objects, ObjectTransport
from perago.ports.system import Clock, Concurrency

# An operator who watches the log sees that a transfer moves, and a long one fills no log.
REPORT_EACH_SECONDS = 1.0


@final
class LocalCache:
    """The cache of this host: contents and manifests in one directory, touched when first used.

    `installation` is the address of the lakeFS: two of them may have repositories of one name.
    """

    def __init__(
        self,
        directory: Path,
        installation: str,
        *,
        bytes_max: int = BYTES_MAX_DEFAULT,
        keeps_aside: bool = False,
    ) -> None:
        store = CacheStore(directory)
        self.contents = ContentCache(store, bytes_max=bytes_max)
        self.manifests = Manifests(store, installation)
        # It writes while the task function runs. One thread, so that the contents of a commit are
        # kept before the manifest that names them.
        self.thread = ThreadPoolExecutor(1, "perago-cache") if keeps_aside else None


@dataclass(frozen=True, slots=True)
class TransferListener:
    """Where transfers are reported, and the clock that says when."""

    progress: workspace.Progress
    clock: Clock


@final
class LocalWorkspacePipeline(workspace.WorkspacePipeline):
    """Workspaces of this process, each with its index in memory."""

    def __init__(
        self,
        objects: Objects,
        commits: Commits,
        concurrency: Concurrency,
        transport: ObjectTransport,
        cache: LocalCache | None = None,
        *,
        listener: TransferListener | None = None,
    ) -> None:
        self._concurrency = concurrency
        self._transport = transport
        self._cache = cache
        self._listener = listener
        manifests = None if cache is None else cache.manifests
        self._inventories = Inventories(objects, commits, concurrency, manifests)
        self._staging = Staging(objects, commits, transport, concurrency)
        self._indexes: dict[Path, changes.WorkspaceIndex] = {}

    def refuse_more_than(self, objects_max: int) -> None:
        """Raise WorkspaceTooLargeError for larger workspaces, before anything moves."""
        self._inventories.objects_max = objects_max

    async def materialise(
        self, source: workspace.WorkspaceSource, directory: Path
    ) -> workspace.Materialised:
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
        index = changes.WorkspaceIndex(directory, [*filled.fetched, *fetched])
        await self._remember(source, inventory, fetched)
        # Last, because an attempt that is cancelled before has nothing to forget.
        self._indexes[directory] = index
        counts = workspace.TransferCounts(
            objects=len(inventory.entries),
            bytes=sum(one.order.entry.size for one in fetched),
            reused=len(filled.fetched),
            requests=inventory.requests + len(fetched),
        )
        return workspace.Materialised(source, directory, counts)

    async def plan(self, materialised: workspace.Materialised) -> SyncPlan:
        prefix = materialised.source.prefix
        return await changes.compare(self._concurrency, self._index(materialised), prefix)

    async def transfer(
        self, materialised: workspace.Materialised, plan: SyncPlan, area: workspace.StagingArea
    ) -> workspace.TransferCounts:
        index = self._index(materialised)
        size = sum(facts.size for facts in plan.upload)
        skipped = index.left_alone(plan)
        meter = TransferMeter(
            self._listener, "up", files=len(plan.upload), size=size, skipped=skipped
        )
        directory = materialised.directory
        return await self._staging.write(directory, index.entry, plan, area, meter.moved)

    async def verify(
        self, materialised: workspace.Materialised, plan: SyncPlan, area: workspace.StagingArea
    ) -> None:
        await self._staging.check(self._index(materialised).files, plan, area)

    async def forget(self, materialised: workspace.Materialised) -> None:
        self._indexes.pop(materialised.directory, None)

    async def describe(self, materialised: workspace.Materialised) -> str:
        return await changes.describe_workspace(self._concurrency, self._index(materialised))

    async def reopen(
        self, source: workspace.WorkspaceSource, directory: Path, described: str
    ) -> workspace.Materialised:
        index = await self._concurrency.blocking(
            lambda: changes.reopen_workspace(directory, described)
        )
        self._indexes[directory] = index
        return workspace.Materialised(
            source, directory, workspace.TransferCounts(objects=len(index.files))
        )

    def _index(self, materialised: workspace.Materialised) -> changes.WorkspaceIndex:
        index = self._indexes.get(materialised.directory)
        if index is None:
            raise changes.unknown_workspace(materialised.directory)
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
        known = [] if news is None else [one for one in orders if one.entry.path not in news]
        fresh = orders if news is None else [one for one in orders if one.entry.path in news]
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
        self, source: workspace.WorkspaceSource, orders: Sequence[FetchOrder], *, cached: int = 0
    ) -> Sequence[Fetched]:
        if not orders:
            return ()
        # Largest first, so that the last connection at work does not hold the longest object.
        orders = sorted(orders, key=lambda order: order.entry.size, reverse=True)
        size = sum(order.entry.size for order in orders)
        meter = TransferMeter(self._listener, "down", files=len(orders), size=size, cached=cached)
        return await self._transport.fetch(source.repository, source.commit, orders, meter.moved)

    async def _remember(
        self, source: workspace.WorkspaceSource, inventory: Inventory, fetched: Sequence[Fetched]
    ) -> None:
        cache = self._cache
        if cache is None:
            return

        def remember() -> None:
            # The manifest last, because it says that this host has all of the contents.
            cache.contents.keep(fetched)
            self._inventories.remember(source, inventory)

        aside = remember if cache.thread is None else partial(cache.thread.submit, remember)
        await self._concurrency.blocking(aside)


@final
class TransferMeter:
    """Counts one transfer of known size from any thread; reports it if there is a listener."""

    def __init__(
        self,
        listener: TransferListener | None,
        direction: str,
        *,
        files: int,
        size: int,
        cached: int = 0,
        skipped: int = 0,
    ) -> None:
        self._listener = listener
        totals = {"files_total": files, "bytes_total": size, "cached": cached, "skipped": skipped}
        self._fixed = {"direction": direction, **totals}
        self._size = size
        self._lock = Lock()
        self._moves = self._files = self._bytes = 0
        self._started = self._reported = 0.0 if listener is None else listener.clock.monotonic()

    def moved(self, size: int, files: int) -> None:
        """Count one object, or a part of one: `files` is 1 with its last."""
        listener = self._listener
        if listener is None:
            return
        with self._lock:
            self._moves += 1
            self._files += files
            self._bytes += size
            now = listener.clock.monotonic()
            # A transfer that was reported once is also reported when it has ended.
            ended = self._bytes >= self._size and self._reported > self._started
            if now - self._reported < REPORT_EACH_SECONDS and not ended:
                return
            self._reported = now
            rate = self._bytes / (now - self._started)
            facts: dict[str, object] = {
                **self._fixed,
                "files": self._files,
                "requests": self._moves,
                "bytes": self._bytes,
                "bytes_per_second": round(rate),
                "eta_seconds": round(max(0, self._size - self._bytes) / rate, 1) if rate else None,
            }
        listener.progress.phase(workspace.Phase.TRANSFERRING, facts)


def _prepare(
    source: workspace.WorkspaceSource, inventory: Inventory, directory: Path, given_up: Event
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
