"""The cache of one host on disk: an SQLite file for rows and small contents, files for large ones.

Every write is a transaction or a rename, so that processes may share it and die at any moment. A
damaged database is removed and begun anew. Knows keys and bytes, not what they mean.
"""

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, final

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

    It goes while the lock is held: whoever waits to lock it sees then that it is gone.
    """
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
