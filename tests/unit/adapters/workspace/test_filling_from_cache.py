"""Many files from the cache in few queries: what is filled, what is missing, what is damaged."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import final

import pytest

from perago.adapters.workspace.cache import (
    FILLED_AT_ONCE,
    FRESH_USES,
    CacheStore,
    ContentCache,
    Filled,
    key_of,
)
from perago.ports.errors import LocalDiskError
from perago.ports.objects import FetchOrder, ObjectEntry, stamp_of


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


FILES = 2 * FILLED_AT_ONCE + 7  # three queries


def numbered(number: int) -> bytes:
    return b"content %d" % number


def key(number: int) -> str:
    return key_of(md5_of(numbered(number)), len(numbered(number)))


def entry(number: int) -> ObjectEntry:
    return ObjectEntry(f"data/{number}", md5_of(numbered(number)), len(numbered(number)))


def fill_all(store: CacheStore, target: Path, given_up: Event | None = None) -> Filled:
    orders = [FetchOrder(entry(number), f"{target}/{number}") for number in range(FILES)]
    return ContentCache(store).fill(orders, given_up)


def numbers(orders: Iterable[FetchOrder]) -> list[int]:
    return [int(one.target.name) for one in orders]


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    """A cache that has all of the numbered contents, each used after the one before it."""
    filled = CacheStore(tmp_path / "cache")
    with filled.work() as connection:
        connection.executemany(
            "INSERT INTO objects (key, size, used, data) VALUES (?, ?, ?, ?)",
            [(key(n), len(numbered(n)), n, numbered(n)) for n in range(FILES)],
        )
    return filled


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_every_file_has_its_content_and_its_stamp(store: CacheStore, target: Path) -> None:
    filled = fill_all(store, target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        str(number): numbered(number) for number in range(FILES)
    }
    assert filled.missing == []
    for number in (0, FILLED_AT_ONCE, FILES - 1):
        fetched = filled.fetched[number]
        assert (fetched.order.entry, fetched.md5) == (entry(number), md5_of(numbered(number)))
        assert fetched.stamp == stamp_of(os.lstat(target / str(number)))


def test_what_was_not_used_for_a_while_is_marked_as_used(store: CacheStore, target: Path) -> None:
    fill_all(store, target)
    with store.work() as connection:
        used = dict(connection.execute("SELECT key, used FROM objects"))
    now = FILES  # one more than the newest
    assert [used[key(n)] for n in range(FILES)] == [
        now if n < now - FRESH_USES else n for n in range(FILES)
    ]


def test_damaged_and_unknown_contents_are_told_apart(store: CacheStore, target: Path) -> None:
    with store.work() as connection:
        connection.execute("UPDATE objects SET data = x'00' WHERE key = ?", (key(5),))
        connection.execute("DELETE FROM objects WHERE key = ?", (key(6),))
    assert numbers(fill_all(store, target).missing) == [5, 6]
    assert len(list(target.iterdir())) == FILES - 2
    with store.work() as connection:
        kept = {row[0] for row in connection.execute("SELECT key FROM objects")}
    assert kept == {key(number) for number in range(FILES)} - {key(5), key(6)}


def test_a_target_that_exists_is_an_error_with_its_name(store: CacheStore, target: Path) -> None:
    (target / "9").write_bytes(b"of another")
    with pytest.raises(LocalDiskError, match=f"{target}/9: file exists"):
        fill_all(store, target)
    assert (target / "9").read_bytes() == b"of another"
    assert (target / "8").read_bytes() == numbered(8)


def test_no_file_is_filled_after_giving_up(store: CacheStore, target: Path) -> None:
    given_up = Event()
    given_up.set()
    assert fill_all(store, target, given_up).fetched == []
    assert not list(target.iterdir())


@final
class DropTheTable(Event):
    """Asked before each file; takes the table away before one of them."""

    def __init__(self, store: CacheStore, *, before: int) -> None:
        super().__init__()
        self.store = store
        self.left = before

    def is_set(self) -> bool:
        """Never given up."""
        if self.left == 0:
            with self.store.work() as connection:
                connection.execute("DROP TABLE objects")
        self.left -= 1
        return False


@pytest.mark.parametrize("before", [0, FILLED_AT_ONCE - 1], ids=["at once", "on the way"])
def test_a_database_that_refuses_leaves_what_was_done_known(
    store: CacheStore, target: Path, before: int
) -> None:
    filled = fill_all(store, target, DropTheTable(store, before=before))
    # The rows of one query are in memory, so the files of that query are filled.
    assert numbers(one.order for one in filled.fetched) == list(range(FILLED_AT_ONCE))
    assert numbers(filled.missing) == list(range(FILLED_AT_ONCE, FILES))
    assert len(list(target.iterdir())) == FILLED_AT_ONCE


def test_a_database_without_its_table_fills_nothing(store: CacheStore, target: Path) -> None:
    with store.work() as connection:
        connection.execute("DROP TABLE objects")
    assert numbers(fill_all(store, target).missing) == list(range(FILES))
    assert not list(target.iterdir())
