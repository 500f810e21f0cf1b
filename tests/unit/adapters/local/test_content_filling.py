"""Contents of the cache to files: exact, with their stamps, and known after a failure."""

import hashlib
import os
from pathlib import Path
from threading import Event

import pytest

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.adapters.local.content_filling import BATCH, ContentFilling
from perago.adapters.local.content_keeping import key_of
from perago.adapters.local.file_copy import FileCopies
from perago.ports.object_transport import FetchOrder, stamp_of
from perago.ports.objects import ObjectEntry

FILES = 2 * BATCH + 7


def content(number: int) -> bytes:
    return b"content %d" % number


def md5(number: int) -> str:
    return hashlib.md5(content(number), usedforsecurity=False).hexdigest()


def key(number: int) -> str:
    return key_of(md5(number), len(content(number)))


def entry(number: int) -> ObjectEntry:
    return ObjectEntry(f"data/{number}", md5(number), len(content(number)))


def filling(store: CacheStore, target: Path, given_up: Event | None = None) -> ContentFilling:
    orders = [FetchOrder(entry(number), f"{target}/{number}") for number in range(FILES)]
    return ContentFilling(store, FileCopies(), orders, given_up or Event())


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    """A cache that has all of the contents."""
    filled = CacheStore(tmp_path / "cache")
    with filled.work() as connection:
        connection.executemany(
            "INSERT INTO objects (key, size, used, data) VALUES (?, ?, ?, ?)",
            [(key(n), len(content(n)), n, content(n)) for n in range(FILES)],
        )
    return filled


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_every_file_has_its_content_and_its_stamp(store: CacheStore, target: Path) -> None:
    filled = filling(store, target)
    with store.work() as connection:
        filled.run(connection, used_before=2)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        str(number): content(number) for number in range(FILES)
    }
    for number in (0, BATCH, FILES - 1):
        fetched = filled.fetched[number]
        assert fetched is not None
        assert (fetched.order.entry, fetched.md5) == (entry(number), md5(number))
        assert fetched.stamp == stamp_of(os.lstat(target / str(number)))
    assert sorted(filled.stale) == sorted([key(0), key(1)])


def test_damaged_and_unknown_contents_are_told_apart(store: CacheStore, target: Path) -> None:
    filled = filling(store, target)
    with store.work() as connection:
        connection.execute("UPDATE objects SET data = x'00' WHERE key = ?", (key(5),))
        connection.execute("DELETE FROM objects WHERE key = ?", (key(6),))
        filled.run(connection, used_before=0)
    assert filled.fetched[5] is filled.fetched[6] is None
    assert filled.damaged == [key(5)]
    assert len(list(target.iterdir())) == FILES - 2


def test_a_target_that_exists_is_an_error_with_its_name(store: CacheStore, target: Path) -> None:
    (target / "9").write_bytes(b"of another")
    filled = filling(store, target)
    with store.work() as connection, pytest.raises(FileExistsError) as raised:
        filled.run(connection, used_before=0)
    assert raised.value.filename == f"{target}/9"
    assert (target / "9").read_bytes() == b"of another"
    assert filled.fetched[8] is not None


def test_no_file_is_filled_after_giving_up(store: CacheStore, target: Path) -> None:
    given_up = Event()
    given_up.set()
    with store.work() as connection:
        filling(store, target, given_up).run(connection, used_before=0)
    assert not list(target.iterdir())


def test_a_database_that_refuses_leaves_what_was_done_known(
    store: CacheStore, target: Path
) -> None:
    filled = filling(store, target)

    def run_without_a_table() -> None:
        with store.work() as connection:
            connection.execute("DROP TABLE objects")
            filled.run(connection, used_before=0)

    with pytest.raises(CacheUnusableError):
        run_without_a_table()
    assert filled.fetched == [None] * FILES
    assert not list(target.iterdir())
