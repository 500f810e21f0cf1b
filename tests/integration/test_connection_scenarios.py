"""Servers, lines and machines that fail a connection: closed by half, forgotten, out of threads.

Each test is one scenario on loopback. What counts is what the server saw.
"""

import asyncio
import resource
import socket
import threading
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived, good, scripted
from tests.integration.transfer_scene import (
    BRANCH,
    REPOSITORY,
    SILENCE_SECONDS,
    answers,
    md5_of,
    transfer_bench,
)
from tests.unprivileged import as_nobody

from perago.adapters import http
from perago.adapters.http import HttpClient, HttpTerms, Outgoing
from perago.ports.errors import UnavailableError
from perago.ports.objects import ObjectUpload

PRESIGNED = b"x" * (5 * 1024 * 1024)
WHOLE = b"y" * 300_000
IDLE_SECONDS = 0.3


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, certificate: Path) -> Path | None:
    """Both ways to talk: without TLS and with it."""
    return certificate if request.param == "tls" else None


async def half_closes(arrived: Arrived) -> bool:
    """Answer, say that nothing more will come, and keep reading."""
    await good(arrived)
    await asyncio.sleep(0.05)
    arrived.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
    return True


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_half_closed_connection_is_not_used_again(method: str, tls: Path | None) -> None:
    client = HttpClient(HttpTerms(ca_file=tls))
    async with scripted(half_closes, tls) as server:
        for _ in range(3):
            body = b"{}" if method == "POST" else None
            assert (await client.ask(method, f"{server.url}/x", body=body, seconds=5)).status == 200
            await asyncio.sleep(0.15)
        assert (len(server.requests), server.connections) == (3, 3)
        await client.close()


async def early(arrived: Arrived) -> bool:
    """Begin a refusal before the body has arrived, and end it afterwards."""
    await arrived.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n")
    await arrived.read_body()
    await arrived.send(b"forbidden")
    return False


async def slow_pieces() -> AsyncIterator[bytes]:
    for _ in range(10):
        await asyncio.sleep(0.05)
        yield WHOLE


async def test_an_answer_that_begins_before_an_upload_has_left_is_read(tls: Path | None) -> None:
    client = HttpClient(HttpTerms(ca_file=tls))
    body = Outgoing(slow_pieces(), 10 * len(WHOLE))
    async with scripted(early, tls) as server, asyncio.timeout(10):
        async with client.exchange("PUT", server.url, silence_seconds=5.0, body=body) as reply:
            assert (reply.status, await reply.read(100)) == (403, b"forbidden")
        await client.close()


async def test_objects_arrive_from_a_server_that_half_closes_each_connection(
    tmp_path: Path,
) -> None:
    async def gives(arrived: Arrived) -> bool:
        await bench.lakefs.give(arrived, b"content")
        arrived.writer.write_eof()
        return True

    async with transfer_bench(tmp_path, retry_seconds=20) as bench:
        bench.lakefs.objects |= {f"x{number}": b"content" for number in range(40)}
        bench.lakefs.downloading = gives
        orders = [bench.order(path) for path in bench.lakefs.objects]
        assert await bench.fetch(*orders) == [b"content"] * 40


async def test_connections_that_were_dropped_in_silence_are_too_old_to_be_used(
    tls: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A balancer forgot them and answers nothing on them, and the server itself is well."""
    monkeypatch.setattr(http, "IDLE_SECONDS_MAX", IDLE_SECONDS)
    forgotten: set[object] = set()

    async def forgets(arrived: Arrived) -> bool:
        if arrived.writer in forgotten:
            await asyncio.sleep(60)
        forgotten.add(arrived.writer)
        return await good(arrived)

    client = HttpClient(HttpTerms(ca_file=tls))
    async with scripted(forgets, tls) as server:
        for _ in range(3):
            answers_ = [client.ask("POST", f"{server.url}/x", seconds=2) for _ in range(4)]
            assert {answer.status for answer in await asyncio.gather(*answers_)} == {200}
            await asyncio.sleep(3 * IDLE_SECONDS)
        assert server.connections == 12
        await client.close()


async def test_dead_kept_connections_cost_a_transfer_one_limit_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were used a moment ago, so their age says nothing; each object meets one at most."""
    monkeypatch.setattr(http, "IDLE_SECONDS_MAX", SILENCE_SECONDS / 2)
    alive: set[object] = set()
    dead: set[object] = set()

    async def forgets(arrived: Arrived) -> bool:
        if arrived.writer in dead:
            await asyncio.sleep(60)
        alive.add(arrived.writer)
        await asyncio.sleep(0.02)
        return await bench.lakefs.give(arrived, b"content")

    async with transfer_bench(tmp_path, retry_seconds=20, silence_seconds=SILENCE_SECONDS) as bench:
        bench.lakefs.objects |= {f"x{number}": b"content" for number in range(40)}
        bench.lakefs.downloading = forgets
        orders = [bench.order(path) for path in bench.lakefs.objects]
        await bench.fetch(*orders[:20])
        dead |= alive
        began = time.monotonic()
        await bench.fetch(*orders[20:])
        assert SILENCE_SECONDS < time.monotonic() - began < 6 * SILENCE_SECONDS


@pytest.mark.scale
async def test_a_server_that_is_away_for_thirty_seconds_costs_no_attempt(tmp_path: Path) -> None:
    """As long as a rollout of lakeFS takes; with the retry terms of a worker."""
    refusing = answers("503 Service Unavailable", b"<html>no server is available</html>")
    began = time.monotonic()

    async def recovers(arrived: Arrived) -> bool:
        if time.monotonic() - began < 30.0:
            return await refusing(arrived)
        bench.lakefs.uploading = bench.lakefs.downloading = None
        return await bench.lakefs.serve(arrived)

    async with transfer_bench(tmp_path, retry_seconds=None) as bench:
        bench.lakefs.objects |= {f"x{number}": b"content" for number in range(20)}
        bench.lakefs.uploading = bench.lakefs.downloading = recovers
        orders = [bench.order(path) for path in bench.lakefs.objects]
        fetched, entry = await asyncio.gather(bench.fetch(*orders), bench.upload("y", b"sent"))
        assert fetched == [b"content"] * 20
        assert entry.checksum == md5_of(b"sent")
        assert time.monotonic() - began < 45.0


@contextmanager
def dead_ipv6_port(port: int) -> Generator[None]:
    """Let connections to this port of ::1 wait for ever: the queue of its listener is full."""
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", port))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_INET6) for _ in range(4)]
        try:
            for one in waiting:
                one.settimeout(0)
                one.connect_ex(("::1", port))
            yield
        finally:
            for one in waiting:
                one.close()


async def test_an_ipv6_address_that_is_first_and_dead_costs_a_moment(
    tls: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    asked: list[str] = []

    async def both(host: str, port: int, **more: int) -> list[object]:
        del more
        asked.append(host)
        ipv6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        ipv4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        return [ipv6, ipv4]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    # The name is in no certificate; what is tried here comes before the handshake.
    client = HttpClient(HttpTerms(ca_file=tls, verify_tls=False, connect_seconds=5.0))
    async with scripted(good, tls) as server:
        with dead_ipv6_port(server.port):
            began = time.monotonic()
            url = f"{server.scheme}://two.example:{server.port}/x"
            assert (await client.ask("POST", url, body=b"{}", seconds=10)).status == 200
            assert time.monotonic() - began < 2.0, "less than the connect time-out of 5 s"
        assert asked == ["two.example"]
        await client.close()


@contextmanager
def no_further_thread() -> Generator[None]:
    """Let the kernel refuse this process another thread."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, hard))
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threading.Thread(target=int).start()
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


async def _moves_at_the_limit(folder: Path, *, warm: bool) -> None:
    async with transfer_bench(folder) as bench:
        bench.lakefs.objects |= {"small": b"1", "whole": WHOLE, "large": PRESIGNED}
        if warm:  # the loop of the transport runs, and its threads for MD5 and the disk do not
            await bench.fetch(bench.order("small"))
            (folder / "t-small").unlink()
        (folder / "s-x").write_bytes(PRESIGNED)
        began = time.monotonic()
        with no_further_thread():
            for path in ("whole", "large"):
                with pytest.raises(UnavailableError, match="can't start new thread"):
                    await bench.fetch(bench.order(path))
            with pytest.raises(UnavailableError, match="can't start new thread"):
                await bench.transport.store(REPOSITORY, BRANCH, [ObjectUpload("x", folder / "s-x")])
        assert time.monotonic() - began < 5.0
        assert bench.left() == []
        # What was given up must not be done after all, when there are threads again.
        orders = [bench.order("whole"), bench.order("large")]
        assert await bench.fetch(*orders) == [WHOLE, PRESIGNED]
        assert (await bench.upload("x", PRESIGNED)).checksum == md5_of(PRESIGNED)


@pytest.mark.parametrize("warm", [False, True], ids=["no thread at all", "none beside the loop"])
def test_a_limit_of_threads_is_a_clear_error_and_passes(*, warm: bool) -> None:
    """A container with few pids left; the kernel refuses root nothing, so it is somebody else."""

    def work(folder: Path) -> None:
        asyncio.run(_moves_at_the_limit(folder, warm=warm))

    as_nobody(work)
