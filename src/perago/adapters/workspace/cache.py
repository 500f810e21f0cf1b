"""Contents of objects that this host has seen, so that the next attempt does not fetch them again.

A content is known by its MD5 and its size, whatever object or repository it came from. It is
verified against both whenever it is kept and whenever it is used. An object whose checksum is no
MD5 is never cached, because nothing would tell its content from that of another object. The cache
never fails an attempt: what it cannot do is fetched.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple, final

from perago.adapters.workspace.cache_store import CacheStore, CacheUnusableError
from perago.adapters.workspace.disk import (
    copy_file,
    disk_errors,
    md5_of_file,
    open_regular,
    share_blocks,
)
from perago.adapters.workspace.inventory import Manifests
from perago.domain.paths import md5_of_checksum
from perago.domain.sync_plan import batched
from perago.ports.objects import Fetched, FetchOrder, FileStamp, ObjectEntry, stamp_of

BYTES_MAX_DEFAULT = 20 * 1024**3
# Contents up to this size are rows of the database, because a thousand rows are two queries and a
# thousand files are a thousand opens. Larger ones are files, so that they can share blocks.
INLINE_BYTES_MAX = 64 * 1024
# Where the disk cannot share blocks, keeping a content writes it a second time. Above this size
# that would cost the disk of the host more than fetching costs the network.
COPIED_BYTES_MAX = 64 * 1024 * 1024
# How many contents one query asks for. That many small ones are in memory at once: 32 MiB.
FILLED_AT_ONCE = 500
# What one transaction keeps: it is in memory at once, in a process that has other attempts to look
# after, and every process of this host waits for its end.
_KEPT_AT_ONCE = 2000
_KEPT_BYTES_AT_ONCE = 16 * 1024 * 1024
# How far below the bound an eviction goes, so that not every kept content evicts another.
_LEFT_BY_EVICTION = 0.9
# A content that was among the last so many uses is not marked as used again. Otherwise each
# warm start of 100,000 files would write 100,000 rows.
FRESH_USES = 64
# O_EXCL: a target that exists is another file's name folded onto this one, and stays as it is.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Filled(NamedTuple):
    """What the cache could do of some orders: those it filled, and those still to be fetched."""

    fetched: Sequence[Fetched]
    missing: Sequence[FetchOrder]


@final
class ContentCache:
    """The contents of one store, kept below a bound; safe among threads and processes."""

    def __init__(self, store: CacheStore, *, bytes_max: int = BYTES_MAX_DEFAULT) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._has_swept = False

    def parted(self, orders: Sequence[FetchOrder]) -> tuple[list[FetchOrder], list[FetchOrder]]:
        """Those whose content should be here, and those whose content is not."""
        keys = [content_key(order.entry) for order in orders]
        known: set[str] = set()
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            for batch in batched(keys, FILLED_AT_ONCE):
                known.update(row[0] for row in connection.execute(_query("key", batch), batch))
        here = [order for key, order in zip(keys, orders, strict=True) if key in known]
        absent = [order for key, order in zip(keys, orders, strict=True) if key not in known]
        return here, absent

    def fill(self, orders: Sequence[FetchOrder], given_up: Event | None = None) -> Filled:
        """Write the files whose content is here, until `given_up` is set."""
        fetched: list[Fetched | None] = [None] * len(orders)
        stale: set[str] = set()
        damaged: set[str] = set()
        now = 0
        # A database that fails on the way has none of what is left; what was filled stays filled.
        with (
            contextlib.suppress(CacheUnusableError),
            disk_errors(self._store.database),
            self._store.work() as connection,
        ):
            now = _next_use(connection)
            for number, key, used, data in _rows(connection, orders):
                if given_up is not None and given_up.is_set():
                    break
                if used < now - FRESH_USES:
                    stale.add(key)
                fetched[number] = self._filled(orders[number], key, data)
                if fetched[number] is None:
                    damaged.add(key)
        self._mark_used(stale, now)
        self._remove(damaged)
        return Filled(
            [one for one in fetched if one is not None],
            [order for order, one in zip(orders, fetched, strict=True) if one is None],
        )

    def keep(self, fetched: Iterable[Fetched]) -> None:
        """Remember contents that were just fetched; a store or a disk that refuses keeps no more.

        A task may have changed or removed a file meanwhile: what is not the content that was
        fetched is not kept.
        """
        with contextlib.suppress(CacheUnusableError, OSError):
            for batch in _batches(fetched):
                self._keep_batch(batch)

    def _filled(self, order: FetchOrder, key: str, data: bytes | None) -> Fetched | None:
        """Write one file; None when the content is not that of its key.

        The key states the MD5 and the size. A program that can change a content can change the
        rest of its row too, so nothing else in the cache is believed.
        """
        if order.entry.size > INLINE_BYTES_MAX:
            return self._copied(order, key)
        data = data or b""
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if key_of(md5, len(data)) != key:
            return None
        return Fetched(order, md5, _written(order.where, data))

    def _copied(self, order: FetchOrder, key: str) -> Fetched | None:
        size, target = order.entry.size, order.target
        kept = open_regular(self._store.large_path(key), size)
        if kept is None:
            return None
        with kept:
            try:
                with target.open("xb", buffering=0) as filled:
                    copy_file(kept, filled, size)
            except FileNotFoundError:
                return None  # the target's folder is gone; the transport will say so
        md5 = md5_of_file(target)
        stamp = stamp_of(target.lstat())
        if key_of(md5, stamp[0]) == key:
            return Fetched(order, md5, stamp)
        target.unlink()
        return None

    def _mark_used(self, keys: Iterable[str], now: int) -> None:
        rows = [(now, key) for key in keys]
        if rows:
            with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
                connection.executemany("UPDATE objects SET used = ? WHERE key = ?", rows)

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            with (
                contextlib.suppress(CacheUnusableError, OSError),
                self._store.work() as connection,
            ):
                connection.execute("DELETE FROM objects WHERE key = ?", (key,))
                self._store.large_path(key).unlink(missing_ok=True)

    def _keep_batch(self, batch: Sequence[Fetched]) -> None:
        """Read some contents, then write their rows.

        The files are read before the database is locked, because a task may be writing to them,
        and every process of this host waits for the lock.
        """
        with ExitStack() as new_files:
            contents = [self._content_of(one, new_files) for one in batch]
            with self._store.work() as connection:
                connection.execute("BEGIN IMMEDIATE")
                if not self._has_swept:
                    self._has_swept = True
                    self._store.sweep(connection)
                used = _next_use(connection)
                for one, content in zip(batch, contents, strict=True):
                    if content is not None:
                        self._keep_one(connection, one, content, used)
                self._evict(connection)

    def _content_of(self, one: Fetched, new_files: ExitStack) -> bytes | BinaryIO | None:
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
                new = new_files.enter_context(self._store.new_file())
                return new if self._is_copied(source, new, size) else None
            data = source.read(size)
        is_whole = hashlib.md5(data, usedforsecurity=False).hexdigest() == one.md5
        return data if is_whole else None

    def _is_copied(self, source: BinaryIO, new: BinaryIO, size: int) -> bool:
        if size > min(COPIED_BYTES_MAX, self._bytes_max):
            return share_blocks(source, new) and os.fstat(new.fileno()).st_size == size
        return copy_file(source, new, size)

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

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Remove the contents that were used longest ago, if there are more than the bound."""
        (total,) = connection.execute("SELECT COALESCE(SUM(size), 0) FROM objects").fetchone()
        if total <= self._bytes_max:
            return
        excess = total - int(self._bytes_max * _LEFT_BY_EVICTION)
        gone: list[tuple[str]] = []
        for key, size in connection.execute("SELECT key, size FROM objects ORDER BY used, key"):
            if excess <= 0:
                break
            gone.append((key,))
            excess -= size
        connection.executemany("DELETE FROM objects WHERE key = ?", gone)
        for (key,) in gone:
            self._store.large_path(key).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LocalCache:
    """The cache of this host as the pipeline takes it: contents and manifests over one store."""

    contents: ContentCache
    manifests: Manifests
    thread: ThreadPoolExecutor | None = None

    def soon(self, work: Callable[[], None]) -> None:
        """Do something for the cache while the task function runs; without a thread, now."""
        if self.thread is None:
            work()
        else:
            self.thread.submit(work)

    def settle(self) -> None:
        """Wait until everything that was to be done soon is done."""
        if self.thread is not None:
            self.thread.submit(int).result()


def open_local_cache(
    directory: Path,
    installation: str,
    *,
    bytes_max: int = BYTES_MAX_DEFAULT,
    keeps_aside: bool = False,
) -> LocalCache:
    """The cache in a directory; nothing is touched before it is used.

    `installation` is the address of the lakeFS: two of them may have repositories of one name.
    """
    store = CacheStore(directory)
    # One thread, so that the contents of a commit are kept before the manifest that names them.
    thread = ThreadPoolExecutor(1, thread_name_prefix="perago-cache") if keeps_aside else None
    contents = ContentCache(store, bytes_max=bytes_max)
    return LocalCache(contents, Manifests(store, installation), thread)


def content_key(entry: ObjectEntry) -> str | None:
    """The key of the content an entry stands for; None when its checksum is no MD5.

    Such a checksum may be that of many contents: lakeFS states "" for every object that was
    imported from a store without MD5s, and a client that links an object may state any text.
    """
    md5 = md5_of_checksum(entry.checksum)
    return None if md5 is None else key_of(md5, entry.size)


def key_of(md5: str, size: int) -> str:
    """The key of a content with this MD5 and so many bytes."""
    return f"{md5}-{size}"


def _query(columns: str, keys: Sequence[str | None]) -> str:
    marks = ",".join("?" * len(keys))
    return f"SELECT {columns} FROM objects WHERE key IN ({marks})"  # noqa: S608 - no values


def _rows(
    connection: sqlite3.Connection, orders: Sequence[FetchOrder]
) -> Iterator[tuple[int, str, int, bytes | None]]:
    """The orders that have a row: their number, and the key, last use and data of the row."""
    for batch in batched(enumerate(orders), FILLED_AT_ONCE):
        keys = [content_key(order.entry) for _, order in batch]
        found = connection.execute(_query("key, used, data", keys), keys).fetchall()
        rows = {row[0]: row for row in found}
        for (number, _), key in zip(batch, keys, strict=True):
            if key is not None and key in rows:
                yield (number, *rows[key])


def _next_use(connection: sqlite3.Connection) -> int:
    """The number of a use that begins now; a count and no time, because clocks are set back."""
    (newest,) = connection.execute("SELECT COALESCE(MAX(used), 0) FROM objects").fetchone()
    return int(newest) + 1


def _batches(fetched: Iterable[Fetched]) -> Iterator[list[Fetched]]:
    """Batches that are bounded by their number and by their bytes."""
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


def _written(where: str | Path, data: bytes) -> FileStamp:
    # os and not Path, because a Path and a buffer for each small file cost as much as writing it.
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
