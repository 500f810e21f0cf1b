"""Files on their way: what the disk does wrong is never taken for a lost answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.lakefs.local_file import FileSource, open_source, write_new
from perago.ports.errors import LocalDiskError


def test_a_source_is_read_in_pieces_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    with open_source(path) as file:
        source = FileSource(path, file)

        assert source.size == 10
        assert [source.read(4), source.read(4), source.read(4), source.read(4)] == [
            b"0123",
            b"4567",
            b"89",
            b"",
        ]


def test_a_source_that_grows_is_sent_as_long_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123")

    with open_source(path) as file:
        source = FileSource(path, file)
        path.write_bytes(b"01234567")

        assert source.read() == b"0123"
        assert source.read() == b""


def test_a_source_that_shrinks_is_an_error_and_not_a_short_body(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123")

    with open_source(path) as file:
        source = FileSource(path, file)
        path.write_bytes(b"01")

        with pytest.raises(LocalDiskError, match="shrank"):
            source.read(4)


def test_a_missing_source_is_the_disk_s_fault(tmp_path: Path) -> None:
    with pytest.raises(LocalDiskError, match="absent"):
        open_source(tmp_path / "absent")


def test_pieces_become_a_file(tmp_path: Path) -> None:
    target = tmp_path / "target"

    write_new(target, [b"01", b"", b"23"])

    assert target.read_bytes() == b"0123"


def test_a_target_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"before")

    with pytest.raises(LocalDiskError, match="target"):
        write_new(target, [b"after"])

    assert target.read_bytes() == b"before"


def test_pieces_that_stop_leave_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"01"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        write_new(tmp_path / "target", broken())

    assert list(tmp_path.iterdir()) == []
