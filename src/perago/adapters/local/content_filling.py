"""Contents of the cache to files that do not exist yet, each verified on the way.

Small contents come from the database's rows, large ones from files beside it.
"""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import final

from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_keeping import INLINE_BYTES_MAX, content_key, key_of
from perago.adapters.local.file_copy import FileCopies, open_regular
from perago.adapters.local.port_transport import md5_of_file
from perago.ports.object_transport import Fetched, FetchOrder, FileStamp, stamp_of

# One query. At most this many small contents are in memory at once: 32 MiB.
BATCH = 500
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def known_keys(connection: sqlite3.Connection, keys: Sequence[str | None]) -> set[str]:
    """Those of some keys that have a row."""
    known: set[str] = set()
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        known |= {row[0] for row in connection.execute(_query("key", batch), batch)}
    return known


@final
class ContentFilling:
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
        for start in range(0, len(self._orders), BATCH):
            keys = [content_key(order.entry) for order in self._orders[start : start + BATCH]]
            found = connection.execute(_query("key, used, data", keys), keys).fetchall()
            rows = {row[0]: row for row in found}
            self.stale.extend(key for key, used, _ in found if used < used_before)
            for number, key in enumerate(keys, start):
                if self._given_up.is_set():
                    return
                if key is None or key not in rows:
                    continue
                self.fetched[number] = self._filled(key, self._orders[number], rows[key][2])
                if self.fetched[number] is None:
                    self.damaged.append(key)

    def _filled(self, key: str, order: FetchOrder, data: bytes | None) -> Fetched | None:
        """Write one file; None when the content is not that of its key.

        The key states the MD5 and the size. Whoever could change a content could change the rest
        of its row too, so nothing else in the cache is believed.
        """
        if order.entry.size > INLINE_BYTES_MAX:
            return self._copied(key, order)
        data = data or b""
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if key_of(md5, len(data)) != key:
            return None
        return Fetched(order, md5, _written(order.where, data))

    def _copied(self, key: str, order: FetchOrder) -> Fetched | None:
        size, target = order.entry.size, order.target
        kept = open_regular(self._store.large_path(key), size)
        if kept is None:
            return None
        with kept:
            try:
                with target.open("xb", buffering=0) as filled:
                    self._copies.copy(kept, filled, size)
            except FileNotFoundError:
                return None  # the target's folder is gone; the transport will say so
        md5 = md5_of_file(target)
        stamp = stamp_of(target.lstat())
        if key_of(md5, stamp[0]) == key:
            return Fetched(order, md5, stamp)
        target.unlink()
        return None


def _query(columns: str, keys: Sequence[str | None]) -> str:
    marks = ",".join("?" * len(keys))
    return f"SELECT {columns} FROM objects WHERE key IN ({marks})"  # noqa: S608 - no values


def _written(where: str | Path, data: bytes) -> FileStamp:
    try:
        descriptor = os.open(where, _NEW_FILE, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            return stamp_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = str(where)  # os.write names no file
        raise
