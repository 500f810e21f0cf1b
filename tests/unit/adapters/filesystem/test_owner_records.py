"""What is written down beside an attempt directory, and when it is on the disk."""

import os
from pathlib import Path

import pytest

from perago.adapters.filesystem.tree_removal import RECORDS_DIRECTORY, OwnerRecords

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
