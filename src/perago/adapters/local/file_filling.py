"""Large contents from the cache's files to files that do not exist yet, verified afterwards."""

import sqlite3
from collections.abc import Sequence
from threading import Event
from typing import final

from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_keeping import content_key, key_of
from perago.adapters.local.file_copy import FileCopies, open_regular
from perago.adapters.local.port_transport import md5_of_file
from perago.ports.object_transport import Fetched, FetchOrder, stamp_of


@final
class FileFilling:
    """One list of files under way; what was done is known even after a failure."""

    def __init__(
        self,
        store: CacheStore,
        copies: FileCopies,
        orders: Sequence[FetchOrder],
        given_up: Event,
    ) -> None:
        self.fetched: list[Fetched | None] = [None] * len(orders)
        self.stale: list[str] = []
        self.damaged: list[str] = []
        self._store = store
        self._copies = copies
        self._orders = orders
        self._given_up = given_up

    def run(self, connection: sqlite3.Connection, *, used_before: int) -> None:
        """Fill all files whose content is here; the disk's and the database's errors raise."""
        for number, order in enumerate(self._orders):
            if self._given_up.is_set():
                return
            key = content_key(order.entry)
            row = connection.execute("SELECT used FROM objects WHERE key = ?", (key,))
            found = row.fetchone()
            if key is None or found is None:
                continue
            if found[0] < used_before:
                self.stale.append(key)
            self.fetched[number] = self._filled(key, order)
            if self.fetched[number] is None:
                self.damaged.append(key)

    def _filled(self, key: str, order: FetchOrder) -> Fetched | None:
        size, target = order.entry.size, order.target
        kept = open_regular(self._store.large_path(key), size)
        if kept is None:
            return None
        with kept:
            try:
                with target.open("xb", buffering=0) as filled:
                    self._copies.copy(kept, filled, size)
            except FileNotFoundError:
                return None  # the target's folder is gone; who fetches it says so
        md5 = md5_of_file(target)
        # The key states the MD5 and the size. Whoever could change the file could change a row
        # beside it too, so nothing else in the cache is believed.
        if key_of(md5, target.lstat().st_size) == key:
            return Fetched(order, md5, stamp_of(target.lstat()))
        target.unlink()
        return None
