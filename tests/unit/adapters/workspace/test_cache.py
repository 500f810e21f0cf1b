"""The cache of one host: what it keeps and fills, what it survives, and what it lets go."""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread

import pytest

from perago.adapters.workspace.cache import (
    BYTES_MAX_DEFAULT,
    CacheStore,
    ContentCache,
)
from perago.ports.errors import LocalDiskError
from perago.ports.objects import Fetched, FetchOrder, ObjectEntry, stamp_of

SMALL, LARGE = b"small", b"large " * 40_000


def cache(place: Path, bytes_max: int = BYTES_MAX_DEFAULT) -> ContentCache:
    return ContentCache(CacheStore(place / "cache"), bytes_max=bytes_max)


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def order(content: bytes, target: Path, checksum: str | None = None) -> FetchOrder:
    checksum = md5_of(content) if checksum is None else checksum
    return FetchOrder(ObjectEntry("data/x", checksum, len(content)), target)


def fetched_file(place: Path, content: bytes, checksum: str | None = None) -> Fetched:
    place.write_bytes(content)
    return Fetched(order(content, place, checksum), md5_of(content), stamp_of(place.lstat()))


def keep(kept: ContentCache, content: bytes, place: Path, checksum: str | None = None) -> None:
    place.mkdir(parents=True, exist_ok=True)
    kept.keep([fetched_file(place / hashlib.sha256(content).hexdigest(), content, checksum)])


def fill(kept: ContentCache, content: bytes, target: Path, checksum: str | None = None) -> bool:
    filled = kept.fill([order(content, target, checksum)])
    assert len(filled.fetched) + len(filled.missing) == 1
    return bool(filled.fetched)


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_was_kept_fills_a_target_in_another_process(tmp_path: Path, content: bytes) -> None:
    keep(cache(tmp_path), content, tmp_path / "first")
    assert fill(cache(tmp_path), content, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_a_task_that_writes_to_its_file_does_not_reach_the_cache(
    tmp_path: Path, content: bytes
) -> None:
    kept = cache(tmp_path)
    keep(kept, content, tmp_path / "first")
    assert fill(kept, content, tmp_path / "one")
    for file in (tmp_path / "one", *(tmp_path / "first").iterdir()):
        with file.open("r+b") as opened:
            opened.write(b"scribble")
    assert fill(kept, content, tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == content


def test_a_corrupted_content_is_dropped_and_fetched_again(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    keep(kept, LARGE, tmp_path / "first")
    (stored,) = (path for path in (tmp_path / "cache/objects").rglob("*") if path.is_file())
    stored.write_bytes(LARGE[:-1] + b"!")
    assert not fill(kept, LARGE, tmp_path / "target")
    assert not (tmp_path / "target").exists()
    assert not stored.exists()
    keep(kept, LARGE, tmp_path / "first")
    assert fill(kept, LARGE, tmp_path / "target")


def test_a_content_stays_when_the_folder_that_it_is_to_fill_is_gone(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    keep(kept, LARGE, tmp_path / "first")
    with pytest.raises(LocalDiskError, match="gone/target: no such file"):
        fill(kept, LARGE, tmp_path / "gone" / "target")
    assert fill(kept, LARGE, tmp_path / "target")


def test_a_content_whose_file_was_removed_is_fetched_again(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    keep(kept, LARGE, tmp_path / "first")
    for stored in (tmp_path / "cache/objects").rglob("*"):
        if stored.is_file():
            stored.unlink()
    assert not fill(kept, LARGE, tmp_path / "target")


def test_a_damaged_store_is_begun_anew(tmp_path: Path) -> None:
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    (tmp_path / "cache/cache.sqlite").write_bytes(b"no database at all" * 1000)
    kept = cache(tmp_path)
    assert not fill(kept, SMALL, tmp_path / "target")
    keep(kept, SMALL, tmp_path / "first")
    assert fill(kept, SMALL, tmp_path / "target")


def test_an_unusable_place_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file stands where the cache should be")
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    assert not fill(cache(tmp_path), SMALL, tmp_path / "target")


def test_the_oldest_contents_go_when_the_bound_is_reached(tmp_path: Path) -> None:
    kept = cache(tmp_path, bytes_max=5 * len(LARGE))
    contents = [LARGE + b"%d" % number for number in range(8)]
    for content in contents:
        keep(kept, content, tmp_path / "first")
    found = [fill(kept, content, tmp_path / f"{n}") for n, content in enumerate(contents)]
    assert found == sorted(found)
    assert 1 <= sum(found) <= 5
    stored = [path for path in (tmp_path / "cache/objects").rglob("*") if path.is_file()]
    assert len(stored) == sum(found)


def test_what_a_dead_process_left_half_kept_is_removed(tmp_path: Path) -> None:
    keep(cache(tmp_path), LARGE, tmp_path / "first")
    litter = tmp_path / "cache/objects/.new-dead"
    litter.write_bytes(b"half")
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    assert not litter.exists()
    assert fill(cache(tmp_path), LARGE, tmp_path / "target")


def test_many_at_once_keep_and_fill_the_same_contents(tmp_path: Path) -> None:
    contents = [LARGE + b"%d" % (number % 3) for number in range(12)]

    def visit(number: int) -> None:
        own = cache(tmp_path)
        keep(own, contents[number], tmp_path / f"source-{number}")
        if fill(own, contents[number], tmp_path / f"target-{number}"):
            assert (tmp_path / f"target-{number}").read_bytes() == contents[number]

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(visit, range(12)))
    assert all(
        fill(cache(tmp_path), content, tmp_path / f"after-{n}")
        for n, content in enumerate(contents)
    )


LOOKS_LIKE_AN_MD5 = "0" * 32


@pytest.mark.parametrize("size", [1000, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("checksum", ["", "opaque-2", LOOKS_LIKE_AN_MD5])
def test_objects_that_share_a_checksum_are_never_filled_from_one_another(
    tmp_path: Path, checksum: str, size: int
) -> None:
    kept = cache(tmp_path)
    keep(kept, b"A" * size, tmp_path / "first", checksum)
    other = order(b"B" * size, tmp_path / "target", checksum)
    assert kept.parted([other]) == ([], [other])
    # A manifest may say that this host has seen the object: then it is not asked for beforehand.
    assert kept.fill([other]).missing == [other]
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("change", ["other bytes", "other size"])
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_a_content_that_is_not_that_of_its_key_is_never_used(
    tmp_path: Path, content: bytes, change: str
) -> None:
    kept = cache(tmp_path)
    keep(kept, content, tmp_path / "first")
    forged = b"X" * (len(content) + (change == "other size"))
    with closing(sqlite3.connect(tmp_path / "cache/cache.sqlite")) as connection, connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(objects)")}
        if content is SMALL:
            connection.execute("UPDATE objects SET data = ?", (forged,))
        if "md5" in columns:
            connection.execute("UPDATE objects SET md5 = ?", (md5_of(forged),))
    for stored in (tmp_path / "cache/objects").rglob("*"):
        if stored.is_file():
            stored.write_bytes(forged)
    assert not fill(kept, content, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_a_cache_that_is_removed_while_a_worker_runs_is_begun_anew(
    tmp_path: Path, content: bytes
) -> None:
    kept = cache(tmp_path)
    keep(kept, content, tmp_path / "first")
    shutil.rmtree(tmp_path / "cache")
    assert not fill(kept, content, tmp_path / "one")
    keep(kept, content, tmp_path / "first")
    assert fill(kept, content, tmp_path / "two")


def test_a_database_of_an_older_perago_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with closing(sqlite3.connect(tmp_path / "cache/cache.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE objects (key TEXT PRIMARY KEY, md5 TEXT NOT NULL)")
    keep(cache(tmp_path), SMALL, tmp_path / "first")
    assert fill(cache(tmp_path), SMALL, tmp_path / "target")


def test_an_input_that_a_task_has_grown_is_not_read(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    for content in (SMALL, LARGE):
        one = fetched_file(tmp_path / "input", content)
        with one.order.target.open("wb") as file:
            file.truncate(600 * 1024**2)
        tracemalloc.start()
        kept.keep([one])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 10 * 1024**2
        assert not fill(kept, content, tmp_path / "target")
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*")) < 1024**2


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("stands_there", ["fifo", "link", "directory"])
def test_an_input_that_a_task_has_replaced_does_not_stop_the_cache(
    tmp_path: Path, content: bytes, stands_there: str
) -> None:
    kept = cache(tmp_path)
    one, healthy = fetched_file(tmp_path / "one", content), fetched_file(tmp_path / "two", b"2")
    one.order.target.unlink()
    match stands_there:
        case "fifo":
            os.mkfifo(one.order.target)
        case "link":
            (tmp_path / "elsewhere").write_bytes(content)
            one.order.target.symlink_to(tmp_path / "elsewhere")
        case _:
            one.order.target.mkdir()
    keeping = Thread(target=kept.keep, args=([one, healthy],), daemon=True)
    keeping.start()
    keeping.join(10)
    assert not keeping.is_alive()
    assert not fill(kept, content, tmp_path / "target")
    assert fill(kept, b"2", tmp_path / "target")


def test_a_file_that_another_process_is_filling_is_not_swept_away(tmp_path: Path) -> None:
    with CacheStore(tmp_path / "cache").new_file() as fresh:
        fresh.write(LARGE)
        keep(cache(tmp_path), SMALL, tmp_path / "first")
        assert Path(fresh.name).exists()
    assert not Path(fresh.name).exists()


def test_no_other_user_reads_a_cache_in_a_directory_that_others_can_enter(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    before = os.umask(0o022)
    try:
        with CacheStore(tmp_path / "cache").work() as connection:
            connection.execute("INSERT INTO objects VALUES ('k', 1, 1, NULL)")
            found = {each.name: each.stat().st_mode & 0o077 for each in files_of(tmp_path)}
        for content in (SMALL, LARGE):
            keep(cache(tmp_path), content, tmp_path / "own")
    finally:
        os.umask(before)
    assert {"cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm"} <= set(found)
    assert {name for name, open_to in found.items() if open_to} <= {"begin.lock"}
    assert (tmp_path / "cache" / "objects").stat().st_mode & 0o077 == 0


def files_of(place: Path) -> list[Path]:
    return [each for each in (place / "cache").rglob("*") if each.is_file()]


def test_a_new_file_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sweeps between the two steps, which no file system makes one."""
    lock, sweeps = fcntl.flock, [SMALL]

    def swept_first(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and sweeps:
            keep(cache(tmp_path), sweeps.pop(), tmp_path / "other")
        lock(descriptor, operation)

    store = CacheStore(tmp_path / "cache")
    with store.work():
        pass  # begun, so that the lock below is that of the file
    monkeypatch.setattr(fcntl, "flock", swept_first)
    with store.new_file() as new:
        assert not sweeps
        assert Path(new.name).exists()


def test_what_is_kept_while_others_begin_the_same_cache_stays(tmp_path: Path) -> None:
    for number in range(20):
        place = tmp_path / str(number)
        together = Barrier(4)

        def begin(row: int, place: Path = place, together: Barrier = together) -> None:
            together.wait()
            with CacheStore(place).work() as connection:
                connection.execute("INSERT INTO objects VALUES (?, 1, 1, NULL)", (str(row),))

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(begin, range(4)))
        with CacheStore(place).work() as connection:
            assert connection.execute("SELECT COUNT(*) FROM objects").fetchone() == (4,)
