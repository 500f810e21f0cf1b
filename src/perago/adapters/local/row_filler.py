"""Small contents from the cache's rows to files that do not exist yet, each verified on the way.

The cache imports it, and runs it as a program (`python -I -S`) beside itself where files are very
many: so it imports the standard library only, and is given neither credentials nor a server. It
does the good case. Whatever goes wrong ends the program, and its batch is done again elsewhere.
"""

import gc
import hashlib
import marshal
import os
import sqlite3
import sys

Stamp = tuple[int, int, int, int]  # size, mtime_ns, ctime_ns and inode of a file
Placed = tuple[str, Stamp]  # MD5 of what was written, and the file's stamp
# Aligned with what was wanted; then keys that were not used for long, and keys that are damaged.
Report = tuple[list[Placed | None], list[str], list[str]]

BUSY_SECONDS = 20.0
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_PAGES = "PRAGMA cache_size = -16384"  # the index of a hundred thousand keys fits


def open_rows(database: str) -> sqlite3.Connection:
    """A connection that reads many rows."""
    connection = sqlite3.connect(database, timeout=BUSY_SECONDS)
    try:
        connection.execute(_PAGES)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def known_keys(connection: sqlite3.Connection, keys: list[str | None]) -> set[str]:
    """Those of some keys that have a row."""
    return {row[0] for row in connection.execute(_query("key", keys), keys)}


def fill_rows(
    connection: sqlite3.Connection, keys: list[str | None], places: list[str], used_before: int
) -> Report:
    """Fill one batch, each key to its place; nothing was written when the database refuses.

    Without a key there is no row. The key states the MD5 and the size of its content; whoever
    could change a content could change the rest of its row too, so nothing else is believed.
    """
    found = connection.execute(_query("key, data, used", keys), keys).fetchall()
    rows = {row[0]: row for row in found}
    placed: list[Placed | None] = []
    damaged: list[str] = []
    for key, where in zip(keys, places, strict=True):
        row = rows.get(key)
        if key is None or row is None:
            placed.append(None)
            continue
        data = row[1] or b""
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if f"{md5}-{len(data)}" != key:
            damaged.append(key)
            placed.append(None)
            continue
        try:
            placed.append((md5, _written(where, data)))
        except OSError as error:
            error.filename = where
            raise
    return placed, [row[0] for row in found if row[2] < used_before], damaged


def _query(columns: str, keys: list[str | None]) -> str:
    marks = ",".join("?" * len(keys))
    return f"SELECT {columns} FROM objects WHERE key IN ({marks})"  # noqa: S608 - no values


def _written(where: str, data: bytes) -> Stamp:
    descriptor = os.open(where, NEW_FILE, 0o666)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def framed(body: bytes) -> bytes:
    """A message between two processes of one Python: its size in a line, then itself."""
    return b"%d\n" % len(body) + body


def main() -> None:
    """Answer batches until the input ends."""
    gc.disable()  # there are no cycles
    connection = open_rows(sys.argv[1])
    for size in sys.stdin.buffer:
        asked = marshal.loads(sys.stdin.buffer.read(int(size)))  # noqa: S302 - who started it asks
        report = fill_rows(connection, *asked)
        sys.stdout.buffer.write(framed(marshal.dumps(report)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
