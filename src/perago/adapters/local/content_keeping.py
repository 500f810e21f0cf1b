"""What the cache keeps of objects that were fetched, and what goes when its bound is reached.

Small contents become rows, large ones files. Nothing is kept that is not what was verified.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, final

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.adapters.local.file_copy import FileCopies, open_regular
from perago.domain.object_checksum import md5_of_checksum
from perago.ports.object_transport import Fetched
from perago.ports.objects import ObjectEntry

INLINE_BYTES_MAX = 64 * 1024
COPIED_BYTES_MAX = 64 * 1024 * 1024
# One batch is in memory at once, in a process that has other attempts to look after.
_KEPT_AT_ONCE = 2000
_KEPT_BYTES_AT_ONCE = 16 * 1024 * 1024
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
        """Read some contents, then write their rows.

        The files are read before the database is locked, because a task may be writing to them,
        and every process of this host waits for the lock.
        """
        with ExitStack() as open_files:
            taken = [self._taken(one, open_files) for one in batch]
            with self._store.work() as connection:
                connection.execute("BEGIN IMMEDIATE")
                if not self._swept:
                    self._swept = True
                    self._store.sweep(connection)
                used = next_use(connection)
                for one, content in zip(batch, taken, strict=True):
                    if content is not None:
                        self._keep_one(connection, one, content, used)
                self._shrink(connection)

    def _taken(self, one: Fetched, open_files: ExitStack) -> bytes | BinaryIO | None:
        """A small content itself, a large one as a new file of the store; None if not to keep.

        An object in an encrypted bucket may state 32 hexadecimal digits that are no MD5; then
        the MD5 of what arrived is another, and the content is not kept.
        """
        size = one.order.entry.size
        if content_key(one.order.entry) != key_of(one.md5, size):
            return None
        source = open_regular(one.order.target, size)
        if source is None:
            return None
        with source:
            if size > INLINE_BYTES_MAX:
                fresh = open_files.enter_context(self._store.new_file())
                return fresh if self._is_copied(source, fresh, size) else None
            data = source.read(size)
        is_whole = hashlib.md5(data, usedforsecurity=False).hexdigest() == one.md5
        return data if is_whole else None

    def _is_copied(self, source: BinaryIO, fresh: BinaryIO, size: int) -> bool:
        """Copy a large content; without reflinks a huge one costs more than it saves."""
        if size > min(COPIED_BYTES_MAX, self._bytes_max):
            return self._copies.reflink(source, fresh) and os.fstat(fresh.fileno()).st_size == size
        return self._copies.copy(source, fresh, size)

    def _keep_one(
        self, connection: sqlite3.Connection, one: Fetched, content: bytes | BinaryIO, used: int
    ) -> None:
        size = one.order.entry.size
        key = key_of(one.md5, size)
        data = content if isinstance(content, bytes) else None
        if not isinstance(content, bytes):
            self._store.keep_file(content, key)
        connection.execute(
            "INSERT OR IGNORE INTO objects (key, size, used, data) VALUES (?, ?, ?, ?)",
            (key, size, used, data),
        )

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


def content_key(entry: ObjectEntry) -> str | None:
    """The key of the content an entry stands for; None when its checksum is no MD5.

    Such a checksum may be that of many contents: lakeFS states "" for every object that was
    imported from a store without MD5s, and whoever links an object may state any text.
    """
    md5 = md5_of_checksum(entry.checksum)
    return None if md5 is None else key_of(md5, entry.size)


def key_of(md5: str, size: int) -> str:
    """The key of a content with this MD5 and so many bytes."""
    return f"{md5}-{size}"


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
