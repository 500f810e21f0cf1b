"""What the cache keeps of objects that were fetched, and what goes when its bound is reached.

Small contents become rows, large ones files. Nothing is kept that is not what was verified.
"""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import final

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.adapters.local.file_copy import FileCopies
from perago.domain.object_checksum import md5_of_checksum
from perago.ports.object_transport import Fetched
from perago.ports.objects import ObjectEntry

INLINE_BYTES_MAX = 64 * 1024
COPIED_BYTES_MAX = 64 * 1024 * 1024
_KEPT_AT_ONCE = 2000
_KEPT_BYTES_AT_ONCE = 128 * 1024 * 1024
_KEPT_PART = 0.9  # how far below the bound an eviction goes


@final
class ContentKeeping:
    """Keeps contents of one store below its bound."""

    def __init__(self, store: CacheStore, copies: FileCopies, *, bytes_max: int) -> None:
        self._store = store
        self._copies = copies
        self._bytes_max = bytes_max
        self._swept = False

    def keep(self, fetched: Iterable[Fetched]) -> None:
        """Remember contents; a store or a disk that refuses keeps no more."""
        with contextlib.suppress(CacheUnusableError, OSError):
            for batch in _batches(fetched):
                self._keep_batch(batch)

    def _keep_batch(self, batch: Sequence[Fetched]) -> None:
        """Keep some contents alone: files without a row belong to the dead, not to a neighbour."""
        with self._store.work() as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._swept:
                self._swept = True
                self._store.sweep(connection)
            used = next_use(connection)
            for one in batch:
                self._keep_one(connection, one, used)
            self._shrink(connection)

    def _keep_one(self, connection: sqlite3.Connection, one: Fetched, used: int) -> None:
        key, size, source = content_key(one.order.entry), one.order.entry.size, one.order.target
        data = None
        try:
            if size <= INLINE_BYTES_MAX:
                data = source.read_bytes()
                if hashlib.md5(data, usedforsecurity=False).hexdigest() != one.md5:
                    return
            elif not self._keep_file(source, size, key):
                return
        except FileNotFoundError:
            return
        connection.execute(
            "INSERT OR IGNORE INTO objects (key, size, md5, used, data) VALUES (?, ?, ?, ?, ?)",
            (key, size, one.md5, used, data),
        )

    def _keep_file(self, source: Path, size: int, key: str) -> bool:
        """Keep a large content; without reflinks a copy of a huge one costs more than it saves."""
        fresh = self._store.new_file()
        try:
            if not self._copies.reflink(source, fresh):
                if size > min(COPIED_BYTES_MAX, self._bytes_max):
                    return False
                fresh.unlink()
                self._copies.copy(source, fresh)
            self._store.keep_file(fresh, key)
        finally:
            fresh.unlink(missing_ok=True)
        return True

    def _shrink(self, connection: sqlite3.Connection) -> None:
        (total,) = connection.execute("SELECT COALESCE(SUM(size), 0) FROM objects").fetchone()
        excess = total - self._bytes_max
        if excess <= 0:
            return
        excess += int(self._bytes_max * (1 - _KEPT_PART))
        gone: list[tuple[str]] = []
        for key, size in connection.execute("SELECT key, size FROM objects ORDER BY used, key"):
            if excess <= 0:
                break
            gone.append((key,))
            excess -= size
        connection.executemany("DELETE FROM objects WHERE key = ?", gone)
        for (key,) in gone:
            self._store.large_path(key).unlink(missing_ok=True)


def content_key(entry: ObjectEntry) -> str:
    """Checksum and size; a checksum that is no MD5 is hashed, for it may hold anything."""
    md5 = md5_of_checksum(entry.checksum)
    if md5 is None:
        opaque = f"{entry.checksum}\n{entry.size}".encode()
        return f"x{hashlib.sha256(opaque).hexdigest()}"
    return f"{md5}-{entry.size}"


def _batches(fetched: Iterable[Fetched]) -> Iterator[list[Fetched]]:
    """Bounded batches, so that nobody waits long for the store."""
    batch: list[Fetched] = []
    size = 0
    for one in fetched:
        batch.append(one)
        size += one.order.entry.size
        if len(batch) >= _KEPT_AT_ONCE or size >= _KEPT_BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def next_use(connection: sqlite3.Connection) -> int:
    """The number of a use that begins now."""
    (newest,) = connection.execute("SELECT COALESCE(MAX(used), 0) FROM objects").fetchone()
    return int(newest) + 1
