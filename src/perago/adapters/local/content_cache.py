"""Contents of objects that this host has seen, keyed by their MD5 and size.

Decides what a target is filled from. Every content is verified against its key whenever it is
used. An object whose checksum is no MD5 is never cached: nothing would tell its content from that
of another object. The cache never fails an attempt.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import final

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.adapters.local.content_filling import ContentFilling, known_keys
from perago.adapters.local.content_keeping import ContentKeeping, content_key, next_use
from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.file_copy import FileCopies
from perago.ports.object_transport import Fetched, FetchOrder

BYTES_MAX_DEFAULT = 20 * 1024**3
_FRESH_USES = 64  # rows used this recently are not marked again


@dataclass(frozen=True, slots=True)
class Filled:
    """What the cache could do of some orders: those it filled, and those still to be fetched."""

    fetched: Sequence[Fetched]
    missing: Sequence[FetchOrder]


@final
class ContentCache:
    """One host's cache; safe among threads and processes."""

    def __init__(
        self,
        store: CacheStore,
        *,
        bytes_max: int = BYTES_MAX_DEFAULT,
        keeps_aside: bool = False,
    ) -> None:
        self._store = store
        self._aside: ThreadPoolExecutor | None = None
        if keeps_aside:
            self._aside = ThreadPoolExecutor(1, thread_name_prefix="perago-cache")
        self._copies = FileCopies()
        self._keeping = ContentKeeping(store, self._copies, bytes_max=bytes_max)

    def parted(self, orders: Sequence[FetchOrder]) -> tuple[list[FetchOrder], list[FetchOrder]]:
        """Those whose content should be here, and those whose content is not."""
        keys = [content_key(order.entry) for order in orders]
        known: set[str] = set()
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            known = known_keys(connection, keys)
        here = [order for key, order in zip(keys, orders, strict=True) if key in known]
        absent = [order for key, order in zip(keys, orders, strict=True) if key not in known]
        return here, absent

    def fill(self, orders: Sequence[FetchOrder], given_up: Event | None = None) -> Filled:
        """Fill the targets whose content is here, until it is given up."""
        filling = ContentFilling(self._store, self._copies, orders, given_up or Event())
        now = 0
        # A cache that cannot be used has none of what is left.
        with (
            contextlib.suppress(CacheUnusableError),
            disk_errors(self._store.database),
            self._store.work() as connection,
        ):
            now = next_use(connection)
            filling.run(connection, used_before=now - _FRESH_USES)
        self._note(now, filling.stale, filling.damaged)
        asked = list(zip(orders, filling.fetched, strict=True))
        return Filled(
            [one for _, one in asked if one is not None],
            [order for order, one in asked if one is None],
        )

    def keep(self, fetched: Sequence[Fetched]) -> None:
        """Remember contents that were just fetched and verified."""
        self._keeping.keep(fetched)

    def keep_soon(self, fetched: Sequence[Fetched]) -> None:
        """Keep aside while the body runs, if this cache may; what it changes meanwhile is not kept.

        A content that was changed or removed under our hands is found out by its checksum, now or
        when it is used.
        """
        self.soon(partial(self.keep, fetched))

    def soon(self, work: Callable[[], None]) -> None:
        """Do something for the cache while the body runs, or now where nothing runs aside."""
        if self._aside is None:
            work()
        else:
            self._aside.submit(work)

    def settle(self) -> None:
        """Wait until everything that was to be kept soon is kept."""
        if self._aside is not None:
            self._aside.submit(int).result()

    def _note(self, now: int, stale: Sequence[str], damaged: Sequence[str]) -> None:
        """Mark what was used again after a while, and forget what was damaged."""
        if stale:
            with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
                connection.executemany(
                    "UPDATE objects SET used = ? WHERE key = ?", [(now, key) for key in stale]
                )
        for key in damaged:
            with (
                contextlib.suppress(CacheUnusableError, OSError),
                self._store.work() as connection,
            ):
                connection.execute("DELETE FROM objects WHERE key = ?", (key,))
                self._store.large_path(key).unlink(missing_ok=True)
