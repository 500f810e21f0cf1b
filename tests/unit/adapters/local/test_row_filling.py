"""Very many rows to files: what fillers beside this process do, and what is done when they fail."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from perago.adapters.local import row_filler, row_filling
from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.row_filling import BATCH, RowFilling, fillers_worth

FILES = 3 * BATCH + 7


def content(number: int) -> bytes:
    return b"content %d" % number


def md5(number: int) -> str:
    return hashlib.md5(content(number), usedforsecurity=False).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    """A cache that has all of the contents."""
    filled = CacheStore(tmp_path / "cache")
    with filled.work() as connection:
        connection.executemany(
            "INSERT INTO objects (key, size, md5, used, data) VALUES (?, ?, ?, ?, ?)",
            [(f"k{n}", len(content(n)), md5(n), n, content(n)) for n in range(FILES)],
        )
    return filled


def run(
    store: CacheStore,
    target: Path,
    *,
    fillers: int,
    begins: Callable[[], bool] = lambda: True,
    program: str = row_filler.__file__,
) -> RowFilling:
    """Fill a folder; this process takes part when it may begin."""
    target.mkdir()
    wanted = [(f"k{number}", f"{target}/{number}") for number in range(FILES)]
    filling = RowFilling(store.database, wanted, fillers=fillers, program=program)

    def gives_up() -> int:
        return int(not any(begins() or Event().wait(0.01) for _ in range(1000)))

    with store.work() as connection:
        connection.set_progress_handler(gives_up, 1000)
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
    begins = (lambda: any(target.iterdir())) if fillers else (lambda: True)
    filling = run(store, target, fillers=fillers, begins=begins)
    assert is_exact(target)
    for number in (0, BATCH, FILES - 1):
        status = (target / str(number)).stat()
        stamp = len(content(number)), status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        assert filling.placed[number] == (md5(number), stamp)
    assert sorted(filling.stale) == ["k0", "k1"]


@pytest.mark.parametrize("fillers", [0, 2])
def test_damaged_and_unknown_contents_are_told_apart(
    store: CacheStore, tmp_path: Path, fillers: int
) -> None:
    with store.work() as connection:
        connection.execute("UPDATE objects SET data = x'00' WHERE key = 'k5'")
        connection.execute("DELETE FROM objects WHERE key = 'k6'")
    filling = run(store, tmp_path / "target", fillers=fillers)
    assert filling.placed[5] is filling.placed[6] is None
    assert filling.damaged == ["k5"]
    assert len(list((tmp_path / "target").iterdir())) == FILES - 2


BEGINS = "import json, sys; wanted, _ = json.loads(sys.stdin.readline());"
DYING = {
    "dies at once": "open(TAKEN, 'w').close()",
    "dies in its answer": f"{BEGINS} print('half an ans', end=''); open(TAKEN, 'w').close()",
    "dies in its batch": f"{BEGINS} open(wanted[0][1], 'w').write('x'); open(TAKEN, 'w').close()",
}


@pytest.mark.parametrize("program", DYING.values(), ids=DYING.keys())
def test_what_a_dying_filler_leaves_is_done_again_here(
    store: CacheStore, tmp_path: Path, program: str
) -> None:
    taken = tmp_path / "taken"
    file = tmp_path / "program.py"
    file.write_text(program.replace("TAKEN", repr(str(taken))))
    target = tmp_path / "target"
    filling = run(store, target, fillers=2, begins=taken.exists, program=str(file))
    assert is_exact(target)
    assert None not in filling.placed


def test_a_target_that_exists_is_an_error_with_its_name(store: CacheStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "9").write_bytes(b"somebody's")
    wanted = [(f"k{number}", f"{target}/{number}") for number in range(FILES)]
    filling = RowFilling(store.database, wanted, fillers=0)
    with store.work() as connection, pytest.raises(FileExistsError) as raised:
        filling.run(connection, used_before=0)
    assert raised.value.filename == f"{target}/9"
    assert (target / "9").read_bytes() == b"somebody's"


def test_a_database_that_refuses_leaves_what_was_done_known(tmp_path: Path) -> None:
    (tmp_path / "none.sqlite").touch()
    filling = RowFilling(tmp_path / "none.sqlite", [("k", f"{tmp_path}/k")], fillers=1)
    with (
        closing(sqlite3.connect(tmp_path / "none.sqlite")) as connection,
        pytest.raises(sqlite3.OperationalError),
    ):
        filling.run(connection, used_before=0)
    assert filling.placed == [None]
    assert not (tmp_path / "k").exists()


def test_a_filler_ends_with_its_input_and_knows_no_credentials(
    store: CacheStore,
) -> None:
    program = row_filler.__file__
    line = [sys.executable, "-I", "-S", program, str(store.database)]
    done = subprocess.run(line, input=b"", env={}, capture_output=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_few_files_are_filled_alone() -> None:
    most = min(row_filling.FILLERS_MAX, len(os.sched_getaffinity(0)) - 1)
    assert fillers_worth(100) == 0
    assert fillers_worth(1_000_000) == most
