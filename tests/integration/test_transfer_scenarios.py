"""Transfers from and to servers that misbehave: the exact bytes, or an error of the port in time.

Each test is one scenario on loopback; where TLS can make a difference, it runs over TLS too.
"""

import asyncio
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived
from tests.integration.transfer_scene import (
    REPOSITORY,
    SILENCE_SECONDS,
    answers,
    md5_of,
    transfer_bench,
)

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.object_files import RANGE_BYTES, SPLIT_BYTES_MIN
from perago.ports.asking import Repetitions, heard_by
from perago.ports.errors import (
    DamagedObjectError,
    ObjectMissingError,
    OutcomeUnknownError,
    ServiceError,
    UnavailableError,
)

MIB = 1024 * 1024
PRESIGNED = b"x" * (5 * MIB)
LARGE = os.urandom(MIB) * (SPLIT_BYTES_MIN // MIB + 5)


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, certificate: Path) -> Path | None:
    """Both ways to talk: without TLS and with it."""
    return certificate if request.param == "tls" else None


async def waits(arrived: Arrived) -> bool:
    """Never answer."""
    await asyncio.sleep(60)
    return bool(arrived.line)


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 5 * MIB, len(LARGE)])
@pytest.mark.parametrize("signs", [False, True], ids=["by the server", "past the server"])
async def test_every_size_arrives_exactly_both_ways(
    tmp_path: Path, tls: Path | None, size: int, *, signs: bool
) -> None:
    content = LARGE[:size]
    async with transfer_bench(tmp_path, tls=tls) as bench:
        bench.lakefs.signs = signs
        entry = await bench.upload("x", content)
        assert (entry.size, entry.checksum) == (size, md5_of(content))
        assert bench.lakefs.objects["x"] == content
        assert await bench.fetch(bench.order("x")) == [content]
        assert bench.left() == ["t-x"]


@pytest.mark.parametrize("size", [1000, MIB, 2 * MIB, len(LARGE)])
async def test_a_body_that_stalls_is_given_up(tmp_path: Path, tls: Path | None, size: int) -> None:
    async def stalls(arrived: Arrived) -> bool:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"
        await arrived.send(head.encode() + bytes(size // 2))
        return await waits(arrived)

    async with transfer_bench(tmp_path, tls=tls, silence_seconds=SILENCE_SECONDS) as bench:
        bench.lakefs.objects["x"] = bytes(size)
        bench.lakefs.downloading = stalls
        began = time.monotonic()
        with pytest.raises(UnavailableError):
            await bench.fetch(bench.order("x"))
        assert time.monotonic() - began < 20 * SILENCE_SECONDS
        assert bench.left() == []


async def test_an_upload_that_is_slower_than_the_limit_for_silence_is_not_killed(
    tmp_path: Path, tls: Path | None
) -> None:
    limit, slow_seconds = 2 * SILENCE_SECONDS, [0.0]

    async def reads_slowly(arrived: Arrived) -> bool:
        # Left alone, the kernel takes tens of megabytes for a slow reader. From the client's side
        # they are sent, and reading them at this pace is a silence of more than the limit.
        raw = arrived.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
        left = int(arrived.headers["content-length"])
        # Few long pauses, because a busy machine doubles short ones. The last one ends when more is
        # left than all buffers hold: until then the client is sending.
        while left > 16 * MIB:
            await asyncio.sleep(limit / 10)
            slow_seconds[0] = time.monotonic() - began
            left -= len(await arrived.reader.readexactly(2 * MIB))
        await arrived.reader.readexactly(left)
        bench.lakefs.objects["x"] = content
        await bench.lakefs.say(arrived, bench.lakefs.stats("x"))
        return True

    content = bytes(48 * MIB)
    async with transfer_bench(tmp_path, tls=tls, silence_seconds=limit) as bench:
        bench.lakefs.uploading = reads_slowly
        began = time.monotonic()
        await bench.upload("x", content)
        assert slow_seconds[0] > limit


async def test_a_server_that_stops_reading_an_upload_is_left(
    tmp_path: Path, tls: Path | None
) -> None:
    async with transfer_bench(tmp_path, tls=tls, silence_seconds=SILENCE_SECONDS) as bench:
        bench.lakefs.uploading = waits
        with pytest.raises(OutcomeUnknownError):
            await bench.upload("x", bytes(64 * MIB))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nexact",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nex\r\n3\r\nact\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nexact",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nexact",
    ],
    ids=["closes", "chunked", "HTTP/1.0", "early hints"],
)
async def test_every_form_of_an_answer_brings_the_object(tmp_path: Path, answer: bytes) -> None:
    async def sends(arrived: Arrived) -> bool:
        await arrived.send(answer)
        return False

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = b"exact"
        bench.lakefs.downloading = sends
        assert await bench.fetch(bench.order("x")) == [b"exact"]


@pytest.mark.parametrize("behind", ["nothing", "a proxy"])
async def test_metadata_arrives_as_it_is_and_a_failed_upload_is_repeated(
    tmp_path: Path, behind: str
) -> None:
    """Headers carry neither capital letters, which lakeFS lowers, nor others than ASCII."""
    failing = ["503 Slow Down"]

    async def fails_once(arrived: Arrived) -> bool:
        if failing:
            return await answers(failing.pop(), b"")(arrived)
        bench.lakefs.uploading = None
        return await bench.lakefs.serve(arrived)

    ways: dict[str, str] = {}
    terms = HttpTerms(proxy_of=lambda _: ways.get(behind))
    async with transfer_bench(tmp_path, terms=terms, retry_seconds=5.0) as bench:
        ways["a proxy"] = bench.server.url  # it gets whole addresses, and answers itself
        bench.lakefs.uploading = fails_once
        metadata = {"Owner": "Ann", "note": "Zürich→", "plain": "x"}
        entry = await bench.upload("x", b"content", metadata)
        sent = bench.server.requests[-2].headers
        assert {name for name in sent if "meta" in name} == {"x-lakefs-meta-plain"}
        assert bench.lakefs.described["x"] == entry.metadata == metadata
        assert not failing


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Slow Down", "504 Timeout", "429 Later"])
@pytest.mark.parametrize("verb", ["down", "up"])
async def test_a_balancers_page_is_waited_out(tmp_path: Path, status: str, verb: str) -> None:
    refusing = answers(status, b"<html>a page</html>")
    began = time.monotonic()

    async def recovers(arrived: Arrived) -> bool:
        if time.monotonic() - began < 1.0:
            return await refusing(arrived)
        bench.lakefs.uploading = bench.lakefs.downloading = None
        return await bench.lakefs.serve(arrived)

    async with transfer_bench(tmp_path, retry_seconds=20.0) as bench:
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.uploading = bench.lakefs.downloading = recovers
        if verb == "down":
            assert await bench.fetch(bench.order("x")) == [b"content"]
        else:
            await bench.upload("y", b"content")
            assert bench.lakefs.objects["y"] == b"content"


@pytest.mark.parametrize("verb", ["down", "up"])
async def test_whoever_waits_for_a_transfer_hears_of_its_repetitions(
    tmp_path: Path, verb: str
) -> None:
    failing = ["503 Busy"] * 3

    async def recovers(arrived: Arrived) -> bool:
        if failing:
            return await answers(failing.pop(), b"")(arrived)
        bench.lakefs.uploading = bench.lakefs.downloading = None
        return await bench.lakefs.serve(arrived)

    heard: list[str] = []
    here = threading.get_ident()

    def failed(request: object, error: ServiceError) -> None:
        del request
        assert threading.get_ident() == here
        heard.append(str(error))

    def over(request: object) -> None:
        del request
        heard.append("over")

    async with transfer_bench(tmp_path, retry_seconds=20.0) as bench:
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.uploading = bench.lakefs.downloading = recovers
        with heard_by(Repetitions(failed, over)):
            if verb == "down":
                await bench.fetch(bench.order("x"))
            else:
                await bench.upload("y", b"content")
        bench.lakefs.uploading = bench.lakefs.downloading = answers("503 Busy", b"")
    *failures, last = heard
    assert last == "over"
    assert len(failures) == 3
    assert all("503" in each for each in failures), failures


async def test_a_server_that_says_when_to_come_back_is_not_asked_before(tmp_path: Path) -> None:
    times: list[float] = []

    async def busy_once(arrived: Arrived) -> bool:
        times.append(time.monotonic())
        if len(times) == 1:
            await arrived.answer(b"", "503 Busy", "Retry-After: 1")
            return True
        return await bench.lakefs.give(arrived, b"content")

    async with transfer_bench(tmp_path, retry_seconds=5.0) as bench:
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.downloading = busy_once
        await bench.fetch(bench.order("x"))
    assert times[1] - times[0] >= 1.0


async def test_a_server_that_stays_away_is_an_error_in_time(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.downloading = answers("503 Busy", b"")
        with pytest.raises(UnavailableError):
            await bench.fetch(bench.order("x"))


async def test_a_page_that_is_not_lakefs_does_not_say_that_an_object_is_missing(
    tmp_path: Path,
) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.downloading = answers("404 Not Found", b"<html>no such route</html>")
        with pytest.raises(UnavailableError):
            await bench.fetch(bench.order("x"))
        bench.lakefs.downloading = answers("404 Not Found", b'{"message": "no such object"}')
        with pytest.raises(ObjectMissingError):
            await bench.fetch(bench.order("x"))


@pytest.mark.parametrize("damaged", [0, len(LARGE) // 2, RANGE_BYTES, len(LARGE) - 1])
@pytest.mark.parametrize("answered", ["in ranges", "whole"])
async def test_a_damaged_byte_is_found_wherever_it_is(
    tmp_path: Path, damaged: int, answered: str
) -> None:
    content = bytearray(LARGE)
    content[damaged] ^= 1

    async def gives(arrived: Arrived) -> bool:
        if answered == "whole":
            arrived.headers.pop("range", None)
        return await bench.lakefs.give(arrived, bytes(content))

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = LARGE
        bench.lakefs.downloading = None if answered == "in ranges" else gives
        order = bench.order("x")
        bench.lakefs.objects["x"] = bytes(content)
        with pytest.raises(DamagedObjectError):
            await bench.fetch(order)
        assert bench.left() == []


async def test_a_server_that_ignores_ranges_gives_the_object_whole(tmp_path: Path) -> None:
    async def knows_no_ranges(arrived: Arrived) -> bool:
        await arrived.answer(LARGE)
        return True

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = LARGE
        bench.lakefs.downloading = knows_no_ranges
        assert await bench.fetch(bench.order("x")) == [LARGE]


OTHER_MD5 = "0123456789abcdef" * 2


@pytest.mark.parametrize("checksum", [OTHER_MD5, "", "opaque-3"])
async def test_an_imported_object_of_an_encrypted_bucket_arrives(
    tmp_path: Path, checksum: str
) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.imported = True
        bench.lakefs.objects["x"] = PRESIGNED
        assert await bench.fetch(bench.order("x", checksum)) == [PRESIGNED]


async def test_an_object_of_an_encrypted_bucket_that_is_damaged_once_is_an_error(
    tmp_path: Path,
) -> None:
    sent: list[bytes] = []

    async def damages(arrived: Arrived) -> bool:
        sent.append(b"%07d" % len(sent))
        return await bench.lakefs.give(arrived, sent[-1])

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.imported = True
        bench.lakefs.objects["x"] = b"content"
        bench.lakefs.downloading = damages
        with pytest.raises(DamagedObjectError):
            await bench.fetch(bench.order("x", OTHER_MD5))
        assert len(sent) == 2


async def test_an_object_that_lakefs_wrote_is_never_taken_with_another_md5(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = b"content"
        with pytest.raises(DamagedObjectError):
            await bench.fetch(bench.order("x", OTHER_MD5))


async def test_a_cancelled_download_ends_within_a_block_and_leaves_nothing(
    tmp_path: Path, tls: Path | None
) -> None:
    size = 10 * 1024 * MIB
    arriving = asyncio.Event()

    async def sends_for_long(arrived: Arrived) -> bool:
        first, _, last = arrived.headers["range"].removeprefix("bytes=").partition("-")
        head = (
            f"Content-Range: bytes {first}-{last}/{size}\r\nContent-Length: {RANGE_BYTES}\r\n\r\n"
        )
        await arrived.send(f"HTTP/1.1 206 Partial Content\r\n{head}".encode())
        for _ in range(RANGE_BYTES // 65536):
            await arrived.send(bytes(65536))
            arriving.set()
            await asyncio.sleep(0.05)
        return True

    async with transfer_bench(tmp_path, tls=tls) as bench:
        bench.lakefs.objects["x"] = b""
        bench.lakefs.downloading = sends_for_long
        order = bench.order("x", OTHER_MD5)
        order = order._replace(entry=order.entry._replace(size=size))
        fetching = asyncio.ensure_future(bench.fetch(order))
        await arriving.wait()
        began = time.monotonic()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert time.monotonic() - began < 1.0
        assert bench.left() == []
        for _ in range(500):  # the server hears of it a moment later
            if bench.server.closed == bench.server.connections:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(bench.server)


async def test_all_attempts_of_a_process_share_one_bound(tmp_path: Path) -> None:
    async def slow(arrived: Arrived) -> bool:
        await asyncio.sleep(0.02)
        return await bench.lakefs.give(arrived, b"content")

    async with transfer_bench(tmp_path, at_once=8) as bench:
        bench.lakefs.objects |= {f"x{number}": b"content" for number in range(60)}
        bench.lakefs.downloading = slow
        orders = [bench.order(path) for path in bench.lakefs.objects]
        attempts = [orders[start::6] for start in range(6)]
        await asyncio.gather(*(bench.fetch(*attempt) for attempt in attempts))
        assert bench.lakefs.most_at_once == 8
        assert bench.server.connections == 8


async def test_one_small_object_starts_no_thread(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects = {"first": b"1", "second": b"2"}
        before = set(threading.enumerate())
        await bench.fetch(bench.order("first"))
        await bench.fetch(bench.order("second"))
        await bench.upload("third", b"3")
        # Named, because one that the first object started would wait idly for the second.
        started = [thread.name for thread in set(threading.enumerate()) - before]
        assert started == ["perago-lakefs-loop"], "the loop of the process, once"


async def test_a_machine_without_threads_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError(f"can't start new thread {thread.name}")

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects["x"] = PRESIGNED
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(UnavailableError, match="thread"):
                await bench.fetch(bench.order("x"))
        assert await bench.fetch(bench.order("x")) == [PRESIGNED]


async def test_a_transport_inherited_over_fork_works_in_the_child(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.objects = {"first": b"1", "second": b"2"}
        await bench.fetch(bench.order("first"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                order = bench.order("second")
                asyncio.new_event_loop().run_until_complete(
                    bench.transport.fetch(REPOSITORY, "main", [order])
                )
                code = 0
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert (tmp_path / "t-second").read_bytes() == b"2"
