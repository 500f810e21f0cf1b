"""Very many rows to files: what fillers beside this process do, and what is done when they fail."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from perago.adapters.local import row_filler, row_filling
from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_keeping import key_of
from perago.adapters.local.row_filling import BATCH, RowFilling, fillers_worth
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry

FILES = 3 * BATCH + 7


def content(number: int) -> bytes:
    return b"content %d" % number


def md5(number: int) -> str:
    return hashlib.md5(content(number), usedforsecurity=False).hexdigest()


def entry(number: int) -> ObjectEntry:
    return ObjectEntry(f"data/{number}", md5(number), len(content(number)))


def key(number: int) -> str:
    return key_of(md5(number), len(content(number)))


def orders(target: Path) -> list[FetchOrder]:
    return [FetchOrder(entry(number), f"{target}/{number}") for number in range(FILES)]


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


def run(
    store: CacheStore,
    target: Path,
    *,
    fillers: int,
    program: str | None = None,
) -> RowFilling:
    """Fill a folder; this process can do nothing where all fillers are good."""
    target.mkdir()
    good = row_filler.__file__
    filling = RowFilling(
        store.database, orders(target), Event(), fillers=fillers, program=program or good
    )
    with store.work() as connection:
        if fillers and program is None:
            connection.set_progress_handler(lambda: 1, 1)
        filling.run(connection, used_before=2)
    return filling


def is_exact(target: Path) -> bool:
    return {path.name: path.read_bytes() for path in target.iterdir()} == {
        str(number): content(number) for number in range(FILES)
    }


@pytest.mark.parametrize("fillers", [0, 2])
def test_every_file_has_its_content_and_its_stamp(
    store: CacheStore, tmp_path: Path, fillers: int
) -> None:
    target = tmp_path / "target"
    filling = run(store, target, fillers=fillers)
    assert is_exact(target)
    for number in (0, BATCH, FILES - 1):
        status = (target / str(number)).stat()
        stamp = len(content(number)), status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        fetched = filling.fetched[number]
        assert fetched is not None
        assert (fetched.order.entry, fetched.md5) == (entry(number), md5(number))
        assert fetched.stamp == stamp
    assert sorted(filling.stale) == sorted([key(0), key(1)])


@pytest.mark.parametrize("fillers", [0, 2])
def test_damaged_and_unknown_contents_are_told_apart(
    store: CacheStore, tmp_path: Path, fillers: int
) -> None:
    with store.work() as connection:
        connection.execute("UPDATE objects SET data = x'00' WHERE key = ?", (key(5),))
        connection.execute("DELETE FROM objects WHERE key = ?", (key(6),))
    filling = run(store, tmp_path / "target", fillers=fillers)
    assert filling.fetched[5] is filling.fetched[6] is None
    assert filling.damaged == [key(5)]
    assert len(list((tmp_path / "target").iterdir())) == FILES - 2


BEGINS = (
    "import marshal, sys; asked = sys.stdin.buffer;"
    "asked = marshal.loads(asked.read(int(asked.readline())));"
)
DYING = {
    "dies at once": "pass",
    "dies in its answer": f"{BEGINS} print('half an ans', end='')",
    "dies after its answer's size": f"{BEGINS} print(9)",
    "dies in its batch": f"{BEGINS} open(asked[1][0], 'w').write('x')",
}


@pytest.mark.parametrize("program", DYING.values(), ids=DYING.keys())
def test_what_a_dying_filler_leaves_is_done_again_here(
    store: CacheStore, tmp_path: Path, program: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(program)
    target = tmp_path / "target"
    filling = run(store, target, fillers=2, program=str(file))
    assert is_exact(target)
    assert None not in filling.fetched


def test_a_target_that_exists_is_an_error_with_its_name(store: CacheStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "9").write_bytes(b"somebody's")
    filling = RowFilling(store.database, orders(target), Event(), fillers=0)
    with store.work() as connection, pytest.raises(FileExistsError) as raised:
        filling.run(connection, used_before=0)
    assert raised.value.filename == f"{target}/9"
    assert (target / "9").read_bytes() == b"somebody's"


@pytest.mark.parametrize("fillers", [0, 2])
def test_nobody_fills_what_was_given_up(store: CacheStore, tmp_path: Path, fillers: int) -> None:
    target, given_up = tmp_path / "target", Event()
    target.mkdir()
    given_up.set()
    filling = RowFilling(store.database, orders(target), given_up, fillers=fillers)
    with store.work() as connection:
        filling.run(connection, used_before=0)
    assert not list(target.iterdir())


def test_a_database_that_refuses_leaves_what_was_done_known(tmp_path: Path) -> None:
    (tmp_path / "none.sqlite").touch()
    filling = RowFilling(tmp_path / "none.sqlite", orders(tmp_path)[:1], Event(), fillers=1)
    with (
        closing(sqlite3.connect(tmp_path / "none.sqlite")) as connection,
        pytest.raises(sqlite3.OperationalError),
    ):
        filling.run(connection, used_before=0)
    assert filling.fetched == [None]
    assert not (tmp_path / "0").exists()


def test_a_filler_ends_with_its_input_and_knows_no_credentials(
    store: CacheStore,
) -> None:
    program = row_filler.__file__
    line = [sys.executable, "-I", "-S", program, str(store.database)]
    done = subprocess.run(line, input=b"", env={}, capture_output=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_few_files_are_filled_alone() -> None:
    most = min(row_filling.FILLERS_MAX, len(os.sched_getaffinity(0)))
    assert fillers_worth(100) == 0
    assert fillers_worth(1_000_000) == (most if most > 1 else 0)
