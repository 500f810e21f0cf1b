"""The cache of one host on disk: an SQLite file for rows and small contents, files for large ones.

Every write is a transaction or a rename, so that processes may share it and die at any moment; a
damaged store is set aside and begun anew. Knows keys and bytes, not what they mean.
"""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from perago.adapters.local.row_filler import open_rows

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    key TEXT PRIMARY KEY, size INTEGER NOT NULL, md5 TEXT NOT NULL, used INTEGER NOT NULL,
    data BLOB
);
CREATE INDEX IF NOT EXISTS objects_by_use ON objects (used, size);
CREATE TABLE IF NOT EXISTS manifests (
    workspace TEXT NOT NULL, commit_id TEXT NOT NULL, used INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (workspace, commit_id)
);
"""
_NEW = ".new-"


class CacheUnusableError(Exception):
    """The cache cannot be used now; whoever asked goes on without it."""


@final
class CacheStore:
    """One directory; connections are opened for each piece of work, in the thread that does it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.database = directory / "cache.sqlite"
        self._large = directory / "objects"
        self._is_open = False

    @contextmanager
    def work(self) -> Generator[sqlite3.Connection]:
        """One transaction; whatever the cache's own disk refuses is CacheUnusableError."""
        try:
            connection = self._connect()
            with contextlib.closing(connection), connection:
                yield connection
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):
                self._set_aside()
            raise CacheUnusableError(str(error)) from error

    def large_path(self, key: str) -> Path:
        """Where the content of a large object stands."""
        return self._large / key[:2] / key

    def new_file(self) -> Path:
        """A fresh empty file beside the large contents, to be filled and kept."""
        self._large.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=_NEW, dir=self._large)
        os.close(descriptor)
        return Path(name)

    def keep_file(self, filled: Path, key: str) -> None:
        """Put a filled file in its place at once."""
        target = self.large_path(key)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        filled.replace(target)

    def sweep(self, connection: sqlite3.Connection) -> None:
        """Remove files that no row names: what processes left that died while keeping them."""
        for path in self._large.rglob("*"):
            if path.is_file():
                row = connection.execute("SELECT 1 FROM objects WHERE key = ?", (path.name,))
                if row.fetchone() is None:
                    path.unlink(missing_ok=True)

    def _connect(self) -> sqlite3.Connection:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CacheUnusableError(str(error)) from error
        connection = open_rows(str(self.database))
        try:
            # A crash of the machine may lose the last rows, never the order of what is kept.
            connection.execute("PRAGMA synchronous = NORMAL")
            if not self._is_open:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_SCHEMA)
                self._is_open = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> None:
        self._is_open = False
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.database}{suffix}").unlink(missing_ok=True)
