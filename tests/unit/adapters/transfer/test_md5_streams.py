"""Streams that are digested together come out as `hashlib` says, however their bytes arrive."""

import hashlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from perago.adapters.transfer.md5_library import (
    BLOCK_BYTES,
    LANES,
    Block,
    Md5State,
    Take,
    md5_end,
    md5_library,
    says_as_hashlib,
)
from perago.adapters.transfer.md5_streams import (
    PIECE_BYTES,
    PIECES_MAX,
    Md5Stream,
    Md5Streams,
)

LENGTHS = (0, 1, 55, 56, 63, 64, 65, 119, 120, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 77)


class Passes:
    """The library, and with how many streams it was asked."""

    def __init__(self, library: Take) -> None:
        self._library = library
        self.companies: list[int] = []

    def __call__(self, streams: Sequence[tuple[Md5State, Block]], size: int) -> None:
        """One pass."""
        self.companies.append(len(streams))
        self._library(streams, size)


@pytest.fixture
def passes() -> Passes:
    library = md5_library()
    assert library is not None, "make .venv/.gate compiles it; is there a C compiler?"
    return Passes(library)


@pytest.fixture(params=["compiled", "hashlib"])
def streams(request: pytest.FixtureRequest, tmp_path: Path) -> Md5Streams:
    if request.param == "compiled":
        return Md5Streams(request.getfixturevalue("passes"))
    return Md5Streams(md5_library(tmp_path / "none.so"))


def fed(stream: Md5Stream, data: bytes, most: int) -> str:
    """The digest of bytes that arrive in so many at once at most."""
    view = memoryview(data)
    while view:
        room = stream.room()
        count = min(len(room), len(view), most)
        room[:count] = view[:count]
        stream.take(count)
        view = view[count:]
    return stream.hexdigest()


def some_bytes(length: int) -> bytes:
    """No two of them are alike."""
    return hashlib.shake_128(str(length).encode()).digest(length)


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("most", [1000, PIECE_BYTES, 10 * PIECE_BYTES])
def test_one_stream_is_digested_as_by_hashlib(streams: Md5Streams, length: int, most: int) -> None:
    data = some_bytes(length)
    with closing(streams.open()) as stream:
        assert fed(stream, data, most) == md5(data)


@pytest.mark.parametrize("at_once", [2, 3, LANES, 3 * LANES])
def test_threads_that_meet_get_each_the_digest_of_their_own(
    streams: Md5Streams, at_once: int
) -> None:
    bodies = [some_bytes(2 * PIECE_BYTES + number) for number in range(at_once)]

    def land(data: bytes) -> str:
        with closing(streams.open()) as stream:
            return fed(stream, data, PIECE_BYTES // 3)

    with ThreadPoolExecutor(at_once) as threads:
        assert list(threads.map(land, bodies)) == [md5(data) for data in bodies]


def test_a_full_stream_takes_the_others_along(passes: Passes) -> None:
    streams = Md5Streams(passes)
    many = [streams.open() for _ in range(LANES + 2)]
    for stream in many:
        for _ in range(PIECES_MAX):
            stream.take(len(stream.room()))
    assert passes.companies == []
    many[-1].room()
    assert passes.companies == [LANES]
    many[-1].room()
    assert passes.companies == [LANES], "there is room already"


def test_who_has_left_is_not_taken_along(passes: Passes) -> None:
    streams = Md5Streams(passes)
    many = [streams.open() for _ in range(4)]
    for stream in many:
        stream.take(len(stream.room()))
    many[0].close()
    many[1].close()
    assert many[2].hexdigest() == md5(bytes(PIECE_BYTES))
    assert passes.companies == [2, 1], "the pass of both, and its own end"


def test_memory_of_a_stream_is_bounded_and_used_again(passes: Passes) -> None:
    stream = Md5Streams(passes).open()
    seen: set[int] = set()
    for _ in range(20):
        room = stream.room()
        seen.add(id(room.obj))
        stream.take(len(room))
    assert len(seen) == PIECES_MAX


def test_a_broken_pass_leaves_nobody_waiting(passes: Passes) -> None:
    broken = [True]

    def library(streams: Sequence[tuple[Md5State, Block]], size: int) -> None:
        if broken.pop() if broken else False:
            raise MemoryError
        passes(streams, size)

    streams = Md5Streams(library)
    first, second, third = (streams.open() for _ in range(3))
    for stream in (first, second, third):
        stream.take(len(stream.room()))
    with pytest.raises(MemoryError):
        first.hexdigest()
    first.close()
    with ThreadPoolExecutor(1) as threads:  # no digest is right after that, but nobody hangs
        threads.submit(second.hexdigest).result(timeout=30)


def test_the_library_is_there_where_there_is_a_compiler() -> None:
    assert (md5_library() is not None) == (shutil.which("cc") is not None)


def test_a_library_that_says_something_else_is_not_used(tmp_path: Path) -> None:
    def swapped(streams: Sequence[tuple[Md5State, Block]], size: int) -> None:
        library = md5_library()
        assert library is not None
        library([(state, streams[0][1]) for state, _ in streams], size)

    assert not says_as_hashlib(swapped)
    (tmp_path / "no.so").write_text("no library")
    assert md5_library(tmp_path / "no.so") is None


@pytest.mark.parametrize("length", LENGTHS)
def test_the_end_of_a_stream_fills_whole_blocks(length: int) -> None:
    end = md5_end(length)
    assert (length + len(end)) % BLOCK_BYTES == 0
    assert 9 <= len(end) < BLOCK_BYTES + 9
