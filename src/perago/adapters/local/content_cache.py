"""Contents of objects that this host has seen, keyed by lakeFS checksum and size.

Decides what is kept, what a target is filled from, and what goes when the bound is reached. Every
content is verified whenever it is used; the cache never fails an attempt.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.adapters.local.disk_errors import disk_error, disk_errors
from perago.adapters.local.file_copy import FileCopies
from perago.adapters.local.port_transport import md5_of_file
from perago.domain.object_checksum import md5_of_checksum
from perago.ports.object_transport import Fetched, FetchOrder

INLINE_BYTES_MAX = 64 * 1024
COPIED_BYTES_MAX = 64 * 1024 * 1024
BYTES_MAX_DEFAULT = 20 * 1024**3
_BATCH = 500
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_KEPT_AT_ONCE = 2000
_KEPT_BYTES_AT_ONCE = 128 * 1024 * 1024
_FRESH_USES = 64  # rows used this recently are not marked again
_KEPT_PART = 0.9  # how far below the bound an eviction goes


@dataclass(frozen=True, slots=True)
class Filled:
    """What the cache could do of some orders: those it filled, and those still to be fetched."""

    fetched: tuple[Fetched, ...]
    missing: tuple[FetchOrder, ...]


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
        self._bytes_max = bytes_max
        self._aside: ThreadPoolExecutor | None = None
        if keeps_aside:
            self._aside = ThreadPoolExecutor(1, thread_name_prefix="perago-cache")
        self._copies = FileCopies()
        self._swept = False

    def parted(self, orders: Sequence[FetchOrder]) -> tuple[list[FetchOrder], list[FetchOrder]]:
        """Those whose content should be here, and those whose content is not."""
        known: set[str] = set()
        keys = [_key(order) for order in orders]
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                known.update(
                    row[0]
                    for row in connection.execute(
                        f"SELECT key FROM objects WHERE key IN ({_marks(batch)})",  # noqa: S608
                        batch,
                    )
                )
        here = [order for key, order in zip(keys, orders, strict=True) if key in known]
        absent = [order for key, order in zip(keys, orders, strict=True) if key not in known]
        return here, absent

    def fill(self, orders: Sequence[FetchOrder]) -> Filled:
        """Fill the targets whose content is here."""
        fetched: list[Fetched] = []
        missing: list[FetchOrder] = []
        seen = _Seen()
        # Whoever cannot be asked has none of what is left.
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            seen.now = _next_use(connection)
            for start in range(0, len(orders), _BATCH):
                batch = orders[start : start + _BATCH]
                keys = [_key(order) for order in batch]
                rows = seen.rows(connection, keys)
                for key, order in zip(keys, batch, strict=True):
                    row = rows.get(key)
                    one = None if row is None else self._fill_one(key, order, *row)
                    if one is not None:
                        fetched.append(one)
                        continue
                    missing.append(order)
                    if row is not None:
                        seen.damaged.append(key)
        missing.extend(orders[len(fetched) + len(missing) :])
        self._note(seen)
        return Filled(tuple(fetched), tuple(missing))

    def keep(self, fetched: Iterable[Fetched]) -> None:
        """Remember contents that were just fetched and verified."""
        with contextlib.suppress(CacheUnusableError, OSError):
            for batch in _batches(fetched):
                self._keep_batch(batch)

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

    def _keep_batch(self, batch: Sequence[Fetched]) -> None:
        """Keep some contents alone: files without a row belong to the dead, not to a neighbour."""
        with self._store.work() as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._swept:
                self._swept = True
                self._store.sweep(connection)
            used = _next_use(connection)
            for one in batch:
                self._keep_one(connection, one, used)
            self._shrink(connection)

    def _note(self, seen: "_Seen") -> None:
        """Mark what was used again after a while, and forget what was damaged."""
        if seen.stale:
            with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
                connection.executemany(
                    "UPDATE objects SET used = ? WHERE key = ?",
                    [(seen.now, key) for key in seen.stale],
                )
        for key in seen.damaged:
            self._forget(key)

    def _fill_one(
        self, key: str, order: FetchOrder, md5: str, data: bytes | None
    ) -> Fetched | None:
        if data is None:
            return self._fill_from_file(key, order, md5)
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            return None
        # Done a hundred thousand times in a row: no context manager for each.
        try:
            descriptor = os.open(order.where, _NEW_FILE, 0o666)
            try:
                os.write(descriptor, data)
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise disk_error(order.target, error) from error
        return Fetched(order, md5, status)

    def _fill_from_file(self, key: str, order: FetchOrder, md5: str) -> Fetched | None:
        kept, target = self._store.large_path(key), order.target
        if not kept.is_file():
            return None
        with disk_errors(target):
            self._copies.copy(kept, target)
            if md5_of_file(target) == md5:
                return Fetched(order, md5)
            target.unlink()
        return None

    def _forget(self, key: str) -> None:
        with contextlib.suppress(CacheUnusableError, OSError), self._store.work() as connection:
            connection.execute("DELETE FROM objects WHERE key = ?", (key,))
            self._store.large_path(key).unlink(missing_ok=True)

    def _keep_one(self, connection: sqlite3.Connection, one: Fetched, used: int) -> None:
        key, size, source = _key(one.order), one.order.entry.size, one.order.target
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


class _Seen:
    """What one filling saw of the rows."""

    def __init__(self) -> None:
        self.now = 0
        self.stale: list[str] = []
        self.damaged: list[str] = []

    def rows(
        self, connection: sqlite3.Connection, keys: Sequence[str]
    ) -> dict[str, tuple[str, bytes | None]]:
        """MD5 and content of each key that is known."""
        found = connection.execute(
            f"SELECT key, md5, data, used FROM objects WHERE key IN ({_marks(keys)})",  # noqa: S608
            keys,
        ).fetchall()
        self.stale.extend(row[0] for row in found if row[3] < self.now - _FRESH_USES)
        return {row[0]: (row[1], row[2]) for row in found}


def _key(order: FetchOrder) -> str:
    """Checksum and size; a checksum that is no MD5 is hashed, for it may hold anything."""
    entry = order.entry
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


def _next_use(connection: sqlite3.Connection) -> int:
    (newest,) = connection.execute("SELECT COALESCE(MAX(used), 0) FROM objects").fetchone()
    return int(newest) + 1


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
