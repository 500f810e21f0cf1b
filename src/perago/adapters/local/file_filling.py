"""Large contents from the cache's files to files that do not exist yet, verified afterwards."""

import sqlite3
from collections.abc import Sequence
from threading import Event
from typing import final

from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_keeping import content_key
from perago.adapters.local.file_copy import FileCopies
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
            row = connection.execute("SELECT md5, used FROM objects WHERE key = ?", (key,))
            found = row.fetchone()
            if found is None:
                continue
            md5, used = found
            if used < used_before:
                self.stale.append(key)
            self.fetched[number] = self._filled(key, order, md5)
            if self.fetched[number] is None:
                self.damaged.append(key)

    def _filled(self, key: str, order: FetchOrder, md5: str) -> Fetched | None:
        kept, target = self._store.large_path(key), order.target
        if not kept.is_file():
            return None
        try:
            self._copies.copy(kept, target)
        except FileNotFoundError:
            # Another process has let it go, or the target's folder is gone: asked for again.
            target.unlink(missing_ok=True)
            return None
        if md5_of_file(target) == md5:
            return Fetched(order, md5, stamp_of(target.lstat()))
        target.unlink()
        return None
