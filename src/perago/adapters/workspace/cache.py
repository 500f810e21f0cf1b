"""Contents of objects that this host has seen, so that the next attempt does not fetch them again.

A content is known by its MD5 and its size, whatever object or repository it came from. It is
verified against both whenever it is kept and whenever it is used. An object whose checksum is no
MD5 is never cached, because nothing would tell its content from that of another object. The cache
never fails an attempt: what it cannot do is fetched.

On disk it is an SQLite file for rows and small contents, and files for large ones. Every write is a
transaction or a rename, so that processes may share it and die at any moment. A damaged database
is removed and begun anew.
"""

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, NamedTuple, final

from perago.adapters.workspace.disk import MD5, copy_file, md5_of_file, open_regular
from perago.domain.paths import md5_of_checksum
from perago.domain.sync_plan import batched
from perago.ports.errors import disk_errors
from perago.ports.objects import Fetched, FetchOrder, FileStamp, ObjectEntry, stamp_of

BYTES_MAX_DEFAULT = 10 * 1024**3  # the default of PERAGO_CACHE_SIZE, for callers without settings
# Contents up to this size are rows of the database, because a thousand rows are two queries and a
# thousand files are a thousand opens. Larger ones are files, so that they can share blocks.
INLINE_BYTES_MAX = 64 * 1024
# Where the disk cannot share blocks, keeping a content writes it a second time. Above this size
# that would cost the disk of the host more than fetching costs the network.
COPIED_BYTES_MAX = 64 * 1024 * 1024
# How many contents one query asks for. That many small ones are in memory at once: 32 MiB.
FILLED_AT_ONCE = 500
# What one transaction keeps: it is in memory at once, in a process that has other attempts to look
# after, and every process of this host waits for its end. Whichever bound is reached first ends it.
# Far lower ones would make a warm-up of 100,000 files wait for as many ends of transactions.
_KEPT_AT_ONCE = 2000
_KEPT_BYTES_AT_ONCE = 16 * 1024 * 1024
# How far below the bound an eviction goes, so that not every kept content evicts another.
_LEFT_BY_EVICTION = 0.9
# A content that was among the last so many uses is not marked as used again. Otherwise each
# warm start of 100,000 files would write 100,000 rows. In exchange an eviction may take a content
# before another one that was used up to so many uses earlier.
FRESH_USES = 64
# O_EXCL: a target that exists is another file's name folded onto this one, and stays as it is.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# The version of the tables. A database of another version is new, or another Perago made it: its
# tables are dropped, because a cache is cheaper to fill again than to convert.
_VERSION = 2
_BEGIN_LOCK = "begin.lock"
_SCHEMA = f"""
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS objects;
DROP TABLE IF EXISTS manifests;
CREATE TABLE objects (
    key TEXT PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL, data BLOB
);
CREATE INDEX objects_by_use ON objects (used, size);
CREATE TABLE manifests (
    workspace TEXT NOT NULL, commit_id TEXT NOT NULL, used INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (workspace, commit_id)
);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_INSERT = "INSERT OR IGNORE INTO objects (key, size, used, data) VALUES (?, ?, ?, ?)"
# How long one process waits for another that writes. The longest write is one batch of kept
# contents; without the cache an attempt only takes longer, so nothing waits for minutes.
_BUSY_SECONDS = 20.0
_NEW = ".new-"  # begins the name of a file that is not yet whole


class CacheUnusableError(Exception):
    """The cache cannot be used now; the attempt goes on without it."""


@final
class CacheStore:
    """One directory; connections are opened for each piece of work, in the thread that does it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.database = directory / "cache.sqlite"
        self._large = directory / "objects"

    @contextmanager
    def work(self) -> Generator[sqlite3.Connection]:
        """One transaction; whatever the cache's own disk refuses is CacheUnusableError."""
        try:
            connection = self._connect()
            with contextlib.closing(connection), connection:
                yield connection
        except sqlite3.DatabaseError as error:
            # An OperationalError is a full disk or a lock; every other one is a damaged file.
            if not isinstance(error, sqlite3.OperationalError):
                self._remove_database()
            raise CacheUnusableError(str(error)) from error

    def large_path(self, key: str) -> Path:
        """Where the content of a large object stands."""
        return self._large / key[:2] / key

    @contextmanager
    def new_file(self) -> Generator[BinaryIO]:
        """A new empty file beside the large contents; removed after the block unless it is kept.

        The lock on it says that its process lives, so that no other process sweeps it away.
        """
        self._large.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            descriptor, name = tempfile.mkstemp(prefix=_NEW, dir=self._large)
            os.close(descriptor)
            new = Path(name)
            with new.open("wb", buffering=0) as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink == 0:
                    continue  # swept away just before it was locked
                try:
                    yield file
                finally:
                    new.unlink(missing_ok=True)
                return

    def keep_file(self, filled: BinaryIO, key: str) -> None:
        """Give a whole file the name of its content."""
        target = self.large_path(key)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        Path(filled.name).replace(target)

    def sweep(self, connection: sqlite3.Connection) -> None:
        """Remove files that no row names: what processes left that died while keeping them."""
        for path in self._large.rglob("*"):
            if path.is_file():
                row = connection.execute("SELECT 1 FROM objects WHERE key = ?", (path.name,))
                if row.fetchone() is None:
                    _remove_unless_filled(path)

    def _connect(self) -> sqlite3.Connection:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite would let every user read it, and its other files have the mode of this one.
            os.close(os.open(self.database, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise CacheUnusableError(str(error)) from error
        connection = sqlite3.connect(self.database, timeout=_BUSY_SECONDS)
        try:
            # 16 MiB of pages: the index of 100,000 keys fits, and is not read again and again.
            connection.execute("PRAGMA cache_size = -16384")
            # A crash of the machine may lose the last rows, never the order of what is kept.
            connection.execute("PRAGMA synchronous = NORMAL")
            # Asked for each connection: an operator may have removed the directory while this
            # worker runs, or another worker may have begun a damaged database anew.
            if not _is_begun(connection):
                self._begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless another process has done so by now: its rows would go.

        A lock of SQLite's own does not do, because changing the journal waits for none.
        """
        try:
            with (self._directory / _BEGIN_LOCK).open("wb") as lock:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
                if not _is_begun(connection):
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(_SCHEMA)
        except OSError as error:
            raise CacheUnusableError(str(error)) from error

    def _remove_database(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.database}{suffix}").unlink(missing_ok=True)


def _is_begun(connection: sqlite3.Connection) -> bool:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(version == _VERSION)


def _remove_unless_filled(path: Path) -> None:
    """Remove a new file unless a living process holds the lock on it.

    It goes while the lock is held: a process that waits for the lock then sees that it is gone.
    """
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)


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
        known: set[int] = set()
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            known.update(number for number, _ in _rows(connection, orders, "key"))
        here = [order for number, order in enumerate(orders) if number in known]
        return here, [order for number, order in enumerate(orders) if number not in known]

    def fill(self, orders: Sequence[FetchOrder], given_up: Event | None = None) -> Filled:
        """Write the files whose content is here, until `given_up` is set."""
        fetched: list[Fetched | None] = [None] * len(orders)
        stale: set[str] = set()
        damaged: set[str] = set()
        # A database that fails on the way has none of what is left; what was filled stays filled.
        with (
            contextlib.suppress(CacheUnusableError),
            disk_errors(self._store.database),
            self._store.work() as connection,
        ):
            now = _next_use(connection)
            for number, (key, used, data) in _rows(connection, orders, "key, used, data"):
                if given_up is not None and given_up.is_set():
                    break
                if used < now - FRESH_USES:
                    stale.add(key)
                fetched[number] = self._filled(orders[number], key, data)
                if fetched[number] is None:
                    damaged.add(key)
            marks = [(now, key) for key in stale]
            connection.executemany("UPDATE objects SET used = ? WHERE key = ?", marks)
            self._drop(connection, damaged)
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
        md5 = MD5(data).hexdigest()
        is_whole = key_of(md5, len(data)) == key
        return Fetched(order, md5, _written(order.where, data)) if is_whole else None

    def _copied(self, order: FetchOrder, key: str) -> Fetched | None:
        size, target = order.entry.size, order.target
        kept = open_regular(self._store.large_path(key), size)
        if kept is None:
            return None
        with kept, target.open("xb", buffering=0) as filled:
            copy_file(kept, filled, size)
        md5, stamp = md5_of_file(target), stamp_of(target.lstat())
        if key_of(md5, stamp[0]) == key:
            return Fetched(order, md5, stamp)
        target.unlink()
        return None

    def _drop(self, connection: sqlite3.Connection, keys: Collection[str]) -> None:
        connection.executemany("DELETE FROM objects WHERE key = ?", [(key,) for key in keys])
        for key in keys:
            with contextlib.suppress(OSError):
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
                    if content is None:
                        continue
                    size = one.order.entry.size
                    key = key_of(one.md5, size)
                    if isinstance(content, bytes):
                        connection.execute(_INSERT, (key, size, used, content))
                    else:
                        self._store.keep_file(content, key)
                        connection.execute(_INSERT, (key, size, used, None))
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
                copied_max = min(COPIED_BYTES_MAX, self._bytes_max)
                return new if copy_file(source, new, size, copied_max) else None
            data = source.read(size)
        return data if MD5(data).hexdigest() == one.md5 else None

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Remove the contents that were used longest ago, if there are more than the bound."""
        (total,) = connection.execute("SELECT COALESCE(SUM(size), 0) FROM objects").fetchone()
        if total <= self._bytes_max:
            return
        excess = total - int(self._bytes_max * _LEFT_BY_EVICTION)
        gone: list[str] = []
        for key, size in connection.execute("SELECT key, size FROM objects ORDER BY used, key"):
            if excess <= 0:
                break
            gone.append(key)
            excess -= size
        self._drop(connection, gone)


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


def _rows(
    connection: sqlite3.Connection, orders: Sequence[FetchOrder], columns: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The orders that have a row: their number and its columns, of which the first is the key."""
    for batch in batched(enumerate(orders), FILLED_AT_ONCE):
        keys = [content_key(order.entry) for _, order in batch]
        marks = ",".join("?" * len(keys))
        query = f"SELECT {columns} FROM objects WHERE key IN ({marks})"  # noqa: S608 - no values
        rows = {row[0]: row for row in connection.execute(query, keys).fetchall()}
        for (number, _), key in zip(batch, keys, strict=True):
            if key in rows:
                yield number, rows[key]


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
