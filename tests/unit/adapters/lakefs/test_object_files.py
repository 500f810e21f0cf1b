"""Files on their way: what the disk does wrong is never taken for a lost answer."""

import hashlib
import os
from contextlib import closing
from pathlib import Path

import pytest

from perago.adapters.lakefs.object_files import ArrivingFile, LeavingFile, write_whole
from perago.ports.errors import DamagedObjectError, LocalDiskError
from perago.ports.objects import FetchOrder, ObjectEntry

CONTENT = b"0123456789"
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


def order_of(target: Path, checksum: str = MD5) -> FetchOrder:
    return FetchOrder(ObjectEntry("x", checksum, len(CONTENT)), target)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def test_a_source_is_read_in_pieces_to_its_end(path: Path) -> None:
    with closing(LeavingFile(path)) as file:
        assert file.size == 10
        assert [file.read(0, 4), file.read(4, 4), file.read(8, 2)] == [b"0123", b"4567", b"89"]
        assert file.read(10, 0) == b""


def test_a_source_that_grows_is_sent_as_long_as_it_was(path: Path) -> None:
    with closing(LeavingFile(path)) as file:
        path.write_bytes(CONTENT * 2)

        assert file.size == 10
        assert file.read(0, file.size) == CONTENT


def test_a_source_that_shrinks_is_an_error_and_not_a_short_body(path: Path) -> None:
    with closing(LeavingFile(path)) as file:
        path.write_bytes(b"01")

        with pytest.raises(LocalDiskError, match="became shorter"):
            file.read(0, 10)


def test_a_missing_source_is_the_disk_s_fault(tmp_path: Path) -> None:
    with pytest.raises(LocalDiskError, match="absent"):
        LeavingFile(tmp_path / "absent")


def test_a_source_that_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(LocalDiskError, match="expected a regular file"):
        LeavingFile(tmp_path / "pipe")


def test_stretches_of_a_source_are_digested_together(path: Path) -> None:
    whole, part = (hashlib.md5(usedforsecurity=False) for _ in range(2))
    with closing(LeavingFile(path)) as file:
        file.digest(0, 4, whole.update)
        file.digest(4, 6, part.update, whole.update)

    assert whole.hexdigest() == MD5
    assert part.digest() == hashlib.md5(CONTENT[4:], usedforsecurity=False).digest()


def test_pieces_become_a_file(tmp_path: Path) -> None:
    target = tmp_path / "target"
    arriving = ArrivingFile(order_of(target))
    for piece in (b"01234", b"", b"56789"):
        arriving.take(piece)
    fetched = arriving.finish(None)
    arriving.close()

    assert (target.read_bytes(), fetched.md5) == (CONTENT, MD5)
    assert list(tmp_path.iterdir()) == [target]


def test_ranges_in_any_order_become_a_file(tmp_path: Path) -> None:
    target = tmp_path / "target"
    arriving = ArrivingFile(order_of(target))
    arriving.take_at(5, b"56789")
    arriving.take_at(0, b"01234")
    arriving.digest_to(10)
    fetched = arriving.finish(None)
    arriving.close()

    assert (target.read_bytes(), fetched.md5) == (CONTENT, MD5)


@pytest.mark.parametrize("content", [CONTENT[:9], b"9876543210"], ids=["fewer", "others"])
def test_other_bytes_leave_no_file(tmp_path: Path, content: bytes) -> None:
    arriving = ArrivingFile(order_of(tmp_path / "target"))
    arriving.take(content)

    with pytest.raises(DamagedObjectError, match="arrived damaged"):
        arriving.finish(None)
    arriving.close()
    with pytest.raises(DamagedObjectError, match="arrived damaged"):
        write_whole(order_of(tmp_path / "target"), content)

    assert list(tmp_path.iterdir()) == []


def test_another_md5_can_be_accepted(tmp_path: Path) -> None:
    target = tmp_path / "target"

    assert write_whole(order_of(target, "0" * 32), CONTENT, MD5).md5 == MD5
    assert target.read_bytes() == CONTENT


def test_a_target_that_exists_stays_as_it_is(path: Path) -> None:
    path.write_bytes(b"before")

    with pytest.raises(LocalDiskError, match="file"):
        write_whole(order_of(path), CONTENT)

    assert path.read_bytes() == b"before"


def test_pieces_that_stop_leave_no_file(tmp_path: Path) -> None:
    arriving = ArrivingFile(order_of(tmp_path / "target"))
    arriving.take(b"01")
    arriving.close()

    assert list(tmp_path.iterdir()) == []
