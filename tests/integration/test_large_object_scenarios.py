"""Objects of gigabytes from and to servers that keep none of them: what arrives, and what stops.

The server sends a sparse file, so that its gigabytes cost neither a disk nor much time.
"""

import asyncio
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived
from tests.integration.small_disk import small_disk
from tests.integration.transfer_scene import (
    BRANCH,
    REPOSITORY,
    SILENCE_SECONDS,
    Bench,
    md5_of,
    transfer_bench,
)

from perago.adapters.lakefs.configuration import RouteChoice
from perago.adapters.lakefs.object_files import LARGE_STREAMS_ENOUGH, RANGE_BYTES, SPLIT_BYTES_MIN
from perago.ports.errors import LocalDiskError
from perago.ports.objects import FetchOrder, ObjectEntry, ObjectUpload

MIB = 1024 * 1024
GIB = 1024 * MIB
ANY_MD5 = "0123456789abcdef" * 2


@pytest.fixture
def disk() -> Generator[Path]:
    """A folder that is not in memory, where the suite keeps its other files."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def marked(place: Path, size: int) -> tuple[Path, str]:
    """A sparse file in which each GiB begins with another byte, and its MD5."""
    path, digest, zeros = place / "marked", hashlib.md5(usedforsecurity=False), bytes(MIB)
    with path.open("wb") as file:
        file.truncate(size)
        for start in range(0, size, MIB):
            piece = zeros
            if start % GIB == 0:
                piece = bytes([start // GIB + 1]) + zeros[1:]
                file.seek(start)
                file.write(piece[:1])
            digest.update(piece)
    return path, digest.hexdigest()


async def give_stretch(arrived: Arrived, path: Path, size: int) -> bool:
    """Answer a request for a range from a file, without a copy in this process."""
    first, _, last = arrived.headers["range"].removeprefix("bytes=").partition("-")
    start, length = int(first), int(last) + 1 - int(first)
    stated = f"Content-Range: bytes {first}-{last}/{size}\r\nContent-Length: {length}\r\n\r\n"
    await arrived.send(f"HTTP/1.1 206 Partial Content\r\n{stated}".encode())
    loop, transport = asyncio.get_running_loop(), arrived.writer.transport
    with path.open("rb") as file:
        await loop.sendfile(transport, file, start, length, fallback=False)
    return True


def order_of(bench: Bench, size: int, md5: str) -> FetchOrder:
    return FetchOrder(ObjectEntry("x", md5, size), bench.place / "t-x")


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_an_object_of_five_gib_arrives_exactly(disk: Path) -> None:
    size = 5 * GIB
    (disk / "server").mkdir()
    path, md5 = await asyncio.to_thread(marked, disk / "server", size)

    async def gives(arrived: Arrived) -> bool:
        return await give_stretch(arrived, path, size)

    async with transfer_bench(disk) as bench:
        bench.lakefs.downloading = gives
        order = order_of(bench, size, md5)
        (fetched,) = await bench.transport.fetch(REPOSITORY, BRANCH, [order])
        assert fetched.md5 == md5
        assert order.target.stat().st_size == size
        with order.target.open("rb") as file:
            marks = [os.pread(file.fileno(), 2, number * GIB) for number in range(5)]
        assert marks == [bytes([number + 1, 0]) for number in range(5)]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("signs", [False, True], ids=["by the server", "past the server"])
async def test_an_object_of_five_gib_is_uploaded_exactly(disk: Path, *, signs: bool) -> None:
    size = 5 * GIB
    received: dict[str, str] = {}

    async def digests(arrived: Arrived) -> bool:
        digest, left = hashlib.md5(usedforsecurity=False), int(arrived.headers["content-length"])
        while left:
            piece = await arrived.reader.read(min(left, MIB))
            await asyncio.to_thread(digest.update, piece)
            left -= len(piece)
        target = arrived.line.split(" ")[1].partition("?")[0]
        received[target] = digest.hexdigest()
        if not signs:
            facts = {"path": "x", "checksum": digest.hexdigest(), "size_bytes": size, "mtime": 0}
            await arrived.answer(json.dumps(facts).encode())
            return True
        bench.lakefs.parts[target.removeprefix("/")] = b""
        await arrived.answer(b"", "200 OK", f'ETag: "{len(received)}"')
        return True

    source, md5 = await asyncio.to_thread(marked, disk, size)
    async with transfer_bench(disk) as bench:
        bench.lakefs.signs = signs
        bench.lakefs.uploading = bench.lakefs.stored = digests
        uploads = [ObjectUpload("x", source)]
        (entry,) = await bench.transport.store(REPOSITORY, BRANCH, uploads)
        assert entry.checksum == md5
        assert len(received) == (1 if not signs else size // (16 * MIB))


async def test_a_download_is_cancelled_in_the_middle_of_ten_gib(disk: Path) -> None:
    size = 10 * GIB
    begun: set[str] = set()
    middle = asyncio.Event()

    async def gives(arrived: Arrived) -> bool:
        begun.add(arrived.headers["range"])
        if len(begun) > 24:  # some ranges have landed, others arrive
            middle.set()
        return await give_stretch(arrived, path, size)

    path = disk / "sparse"
    with path.open("wb") as file:
        file.truncate(size)
    async with transfer_bench(disk) as bench:
        bench.lakefs.downloading = gives
        fetching = asyncio.ensure_future(
            bench.transport.fetch(REPOSITORY, BRANCH, [order_of(bench, size, ANY_MD5)])
        )
        await middle.wait()
        began = time.monotonic()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert time.monotonic() - began < 2.0
        assert bench.left() == ["sparse"]
        asked = len(begun)
        await nothing_moves(bench)
        assert len(begun) == asked, "no further range was asked for"


async def test_an_upload_is_cancelled_in_the_middle_of_ten_gib(disk: Path) -> None:
    size = 10 * GIB
    middle = asyncio.Event()

    async def reads(arrived: Arrived) -> bool:
        read = 0
        while piece := await arrived.reader.read(MIB):
            read += len(piece)
            if read > 100 * MIB:
                middle.set()
        return False

    source = disk / "s-x"
    with source.open("wb") as file:
        file.truncate(size)
    async with transfer_bench(disk) as bench:
        bench.lakefs.uploading = reads
        storing = asyncio.ensure_future(
            bench.transport.store(REPOSITORY, BRANCH, [ObjectUpload("x", source)])
        )
        await middle.wait()
        began = time.monotonic()
        storing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await storing
        assert time.monotonic() - began < 2.0
        await nothing_moves(bench)


async def nothing_moves(bench: Bench) -> None:
    """Wait until the server sends and reads no more; it hears of the end a moment later."""
    for _ in range(1000):
        if bench.lakefs.at_once == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{bench.lakefs.at_once} requests are still at work")


@pytest.mark.parametrize("size", [3 * MIB, SPLIT_BYTES_MIN], ids=["in one piece", "in ranges"])
async def test_a_full_disk_ends_a_download_and_leaves_no_part(tmp_path: Path, size: int) -> None:
    content = bytes(size)
    with small_disk(tmp_path / "disk") as disk:
        async with transfer_bench(disk) as bench:
            bench.lakefs.objects["x"] = content
            with pytest.raises(LocalDiskError, match=r"no space left on device; free|too large"):
                await bench.fetch(bench.order("x"))
            assert bench.left() == []
            bench.lakefs.objects["small"] = b"fits"
            assert await bench.fetch(bench.order("small")) == [b"fits"]


@pytest.mark.parametrize("objects", [1, 2, 3])
async def test_large_objects_share_a_few_streams_and_leave_slots_for_others(
    disk: Path, objects: int
) -> None:
    """Ranges that arrive side by side arrive together, and MD5 waits for the first of them."""
    size = 20 * RANGE_BYTES
    begun: list[int] = []

    async def gives(arrived: Arrived) -> bool:
        begun.append(int(arrived.headers["range"].removeprefix("bytes=").partition("-")[0]))
        return await give_stretch(arrived, path, size)

    path, md5 = await asyncio.to_thread(marked, disk, size)
    async with transfer_bench(disk, at_once=48) as bench:
        bench.lakefs.downloading = gives
        orders = [
            FetchOrder(ObjectEntry(f"x{number}", md5, size), bench.place / f"t-{number}")
            for number in range(objects)
        ]
        fetched = await bench.transport.fetch(REPOSITORY, BRANCH, orders)
        assert {one.md5 for one in fetched} == {md5}
        assert bench.lakefs.most_at_once <= LARGE_STREAMS_ENOUGH + objects - 1
    assert len(begun) == 20 * objects
    ahead = [start - sorted(begun)[number] for number, start in enumerate(begun)]
    assert max(ahead) <= LARGE_STREAMS_ENOUGH * RANGE_BYTES, "the oldest ranges go first"


async def test_a_range_that_stalls_never_answers_another_request(tmp_path: Path) -> None:
    """The rest of a stalled range arrives late; nothing may read it as its own answer."""
    content = os.urandom(MIB) * (SPLIT_BYTES_MIN // MIB)
    stalled = asyncio.Event()
    late = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"

    async def stalls_once(arrived: Arrived) -> bool:
        if stalled.is_set() or "bytes=0-" not in arrived.headers["range"]:
            return await bench.lakefs.give(arrived, content)
        stalled.set()
        head = f"Content-Range: bytes 0-{RANGE_BYTES - 1}/{len(content)}\r\n"
        head = f"HTTP/1.1 206 Partial Content\r\n{head}Content-Length: {RANGE_BYTES}\r\n\r\n"
        await arrived.send(head.encode() + content[:MIB])
        await asyncio.sleep(3 * SILENCE_SECONDS)
        await arrived.send(late * (RANGE_BYTES // len(late)))
        return True

    async with transfer_bench(tmp_path, retry_seconds=20, silence_seconds=SILENCE_SECONDS) as bench:
        bench.lakefs.objects |= {"x": content, "y": b"public"}
        bench.lakefs.downloading = stalls_once
        assert await bench.fetch(bench.order("x")) == [content]
        bench.lakefs.downloading = None
        assert await bench.fetch(bench.order("y")) == [b"public"]
        assert (await bench.upload("z", b"sent")).checksum == md5_of(b"sent")


async def test_a_file_that_is_cut_while_it_leaves_says_nothing_of_lakefs(tmp_path: Path) -> None:
    """No answer comes, and yet the outcome is known: the file cannot be sent."""

    async def cuts(arrived: Arrived) -> bool:
        os.truncate(tmp_path / "s-x", 0)
        await arrived.read_body()
        return False

    async with transfer_bench(tmp_path, route=RouteChoice.API) as bench:
        bench.lakefs.uploading = cuts
        with pytest.raises(LocalDiskError, match="became shorter while it was uploaded"):
            await bench.upload("x", bytes(64 * MIB))
        assert bench.lakefs.asked == ["POST /branches/main/objects"]
