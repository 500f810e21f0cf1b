"""What is written down beside an attempt directory, and when it is on the disk."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.adapters.filesystem.locks import RECORDS_DIRECTORY, OwnerRecords

TEXT = '{"result": "\u00fc"}\nsecond line'


def test_an_outcome_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves no name without bytes, and after the call no bytes without a name."""
    records = OwnerRecords(tmp_path)
    records.take("task", "owner")
    kept = tmp_path / RECORDS_DIRECTORY / "task.outcome"
    flushed: list[tuple[str, bool]] = []
    flush = os.fsync

    def seen(descriptor: int) -> None:
        flush(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        is_whole = path.is_file() and path.read_text(encoding="utf-8") == TEXT
        flushed.append(("the text" if is_whole else path.name, kept.exists()))

    monkeypatch.setattr(os, "fsync", seen)
    records.write_outcome("task", TEXT)
    assert flushed == [("the text", False), (RECORDS_DIRECTORY, True)]
    records.drop("task")


def test_nothing_of_a_record_stays_behind(tmp_path: Path) -> None:
    records = OwnerRecords(tmp_path)
    records.take("task", "owner")
    records.write_outcome("task", TEXT)
    for begun in ("new", "new-json", "new-outcome"):  # of a process that died as it wrote
        (tmp_path / RECORDS_DIRECTORY / f"task.{begun}").write_text("{")
    assert (records.names(), records.outcomes()) == (["task"], ["task"])
    records.drop("task")
    assert not list((tmp_path / RECORDS_DIRECTORY).iterdir())


@pytest.fixture
def of_the_dead(tmp_path: Path) -> OwnerRecords:
    """The records of a root with one whose owner is gone."""
    dead = OwnerRecords(tmp_path)
    dead.take("a", "{}")
    dead.let_go("a")
    return OwnerRecords(tmp_path)


def test_attempts_that_look_at_once_do_not_take_each_other_for_the_owner(
    of_the_dead: OwnerRecords,
) -> None:
    """Two that begin together look for the same outcome, and each must find it."""

    def look(_: int) -> bool:
        return any(of_the_dead.is_alive("a") for _ in range(1000))

    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(look, range(4)))


def test_who_looks_keeps_no_record_from_the_attempt_that_goes_on_with_it(
    of_the_dead: OwnerRecords,
) -> None:
    """It would be refused, and its outcome removed with the directory."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            of_the_dead.is_alive("a")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(look)
        try:
            for _ in range(200):
                of_the_dead.take("a", "{}")
                of_the_dead.let_go("a")
        finally:
            over.set()
