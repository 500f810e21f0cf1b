"""Perago's HTTP client against servers, proxies and lines that misbehave.

Each test is one scenario; where TLS can make a difference, it runs over TLS too. What counts is
what the server saw: a request leaves once, and one that did not leave is told apart.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived, Script, ScriptedServer, good, scripted

from perago.adapters.http import HttpClient, HttpTerms, NoAnswerError, NotSentError, Outgoing

SILENCE_SECONDS = 0.4
PIECE = bytes(64 * 1024)


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, certificate: Path) -> Path | None:
    """Both ways to talk: without TLS and with it."""
    return certificate if request.param == "tls" else None


@asynccontextmanager
async def connected(
    script: Script, tls: Path | None = None
) -> AsyncGenerator[tuple[HttpClient, ScriptedServer]]:
    """A server and a client that trusts it."""
    client = HttpClient(HttpTerms(ca_file=tls, connect_seconds=2.0))
    async with scripted(script, tls) as server:
        try:
            yield client, server
        finally:
            await client.close()


async def pieces(count: int, pause: float = 0.0) -> AsyncIterator[bytes]:
    """A body that takes its time."""
    for _ in range(count):
        await asyncio.sleep(pause)
        yield PIECE


async def silent(arrived: Arrived) -> bool:
    """Read the request and never answer."""
    await arrived.read_body()
    await asyncio.sleep(60)
    return False


async def half(arrived: Arrived) -> bool:
    """Begin a body and stall in it."""
    await arrived.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(1000))
    await asyncio.sleep(60)
    return False


async def vanishes(arrived: Arrived) -> bool:
    """Close as soon as the request has arrived."""
    await arrived.read_body()
    return False


async def resets(arrived: Arrived) -> bool:
    """Reset the connection as soon as the request has arrived."""
    await arrived.read_body()
    arrived.reset()
    return False


@pytest.mark.parametrize("script", [silent, half], ids=["before the answer", "in its body"])
async def test_a_stalled_answer_ends_after_the_limit_for_silence(
    script: Script, tls: Path | None
) -> None:
    async with connected(script, tls) as (client, server):
        began = time.monotonic()
        with pytest.raises(NoAnswerError):
            async with client.exchange(
                "GET", f"{server.url}/x", silence_seconds=SILENCE_SECONDS
            ) as reply:
                await reply.read(1 << 20)
        assert time.monotonic() - began < 10 * SILENCE_SECONDS


async def test_a_slow_but_steady_upload_outlives_the_limit_for_silence(tls: Path | None) -> None:
    async with connected(good, tls) as (client, server):
        body = Outgoing(pieces(8, pause=SILENCE_SECONDS / 4), 8 * len(PIECE))
        began = time.monotonic()
        async with client.exchange(
            "PUT", f"{server.url}/x", body=body, silence_seconds=SILENCE_SECONDS
        ) as reply:
            assert len(await reply.read(1 << 30)) == 8 * len(PIECE)
        assert time.monotonic() - began > SILENCE_SECONDS
        assert "transfer-encoding" not in server.requests[0].headers, "its length was announced"


async def test_a_server_that_stops_reading_an_upload_is_left(tls: Path | None) -> None:
    async def deaf(arrived: Arrived) -> bool:
        del arrived
        await asyncio.sleep(60)
        return False

    async with connected(deaf, tls) as (client, server):
        body = Outgoing(pieces(1000), 1000 * len(PIECE))  # more than any buffer between them
        with pytest.raises(NoAnswerError):
            async with client.exchange(
                "PUT", f"{server.url}/x", body=body, silence_seconds=SILENCE_SECONDS
            ):
                pass


@pytest.mark.parametrize("script", [vanishes, resets], ids=["closed", "reset"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_a_request_that_arrived_is_never_sent_again(
    method: str, script: Script, tls: Path | None
) -> None:
    async with connected(script, tls) as (client, server):
        with pytest.raises(NoAnswerError):
            await client.ask(method, f"{server.url}/x", body=b"once", seconds=5)
        assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_a_kept_connection_that_closes_as_the_request_arrives_gets_it_once(
    method: str, tls: Path | None
) -> None:
    async def second_vanishes(arrived: Arrived) -> bool:
        await arrived.read_body()
        if arrived.line.startswith("HEAD"):
            await arrived.answer()
            return True
        return False

    async with connected(second_vanishes, tls) as (client, server):
        await client.ask("HEAD", f"{server.url}/warm", seconds=5)
        with pytest.raises(NoAnswerError):
            await client.ask(method, f"{server.url}/x", body=b"once", seconds=5)
        assert (len(server.requests), server.connections) == (2, 1)


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used(
    tls: Path | None,
) -> None:
    async def once(arrived: Arrived) -> bool:
        await arrived.answer(b"1")
        return False  # closed, although nothing in the answer said so

    async with connected(once, tls) as (client, server):
        for _ in range(3):
            assert (await client.ask("POST", f"{server.url}/x", seconds=5)).body == b"1"
            await asyncio.sleep(0.1)
        assert server.connections == 3


async def test_forty_waiting_polls_do_not_hold_up_a_heartbeat(tls: Path | None) -> None:
    async def polls_wait(arrived: Arrived) -> bool:
        await arrived.read_body()
        await asyncio.sleep(1.5 if "poll" in arrived.line else 0)
        await arrived.answer(b"[]")
        return True

    async with connected(polls_wait, tls) as (client, server):
        polls = [
            asyncio.create_task(client.ask("GET", f"{server.url}/poll", seconds=30))
            for _ in range(40)
        ]
        await asyncio.sleep(0.5)
        await client.ask("POST", f"{server.url}/beat", body=b"{}", seconds=30)
        waiting = [poll for poll in polls if not poll.done()]
        assert len(waiting) == 40, "the heartbeat was answered before any poll"
        await asyncio.gather(*polls)


ANSWERS = {
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\n\r\n"
    ),
    "until the end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nbody",
    "early answers before it": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
    ),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
async def test_every_form_of_an_answer_is_read(answer: bytes, tls: Path | None) -> None:
    async def says(arrived: Arrived) -> bool:
        await arrived.read_body()
        await arrived.send(answer)
        return b"Length" in answer or b"chunked" in answer

    async with connected(says, tls) as (client, server):
        for _ in range(2):
            found = await client.ask("POST", f"{server.url}/x", body=b"{}", seconds=5)
            assert (found.status, found.body) == (200, b"body")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    ],
    ids=["cut", "cut in a chunk", "no HTTP"],
)
async def test_a_broken_answer_is_no_answer(answer: bytes, tls: Path | None) -> None:
    async def says(arrived: Arrived) -> bool:
        await arrived.send(answer)
        return False

    async with connected(says, tls) as (client, server):
        with pytest.raises(NoAnswerError):
            await client.ask("GET", f"{server.url}/x", seconds=5)
        assert len(server.requests) == 1


async def test_a_redirect_is_handed_on_and_not_followed() -> None:
    async def moves(arrived: Arrived) -> bool:
        await arrived.answer(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:9/other")
        return True

    async with connected(moves) as (client, server):
        found = await client.ask("PUT", f"{server.url}/x", body=b"{}", seconds=5)
        assert (found.status, found.headers["location"]) == (307, "http://127.0.0.1:9/other")


async def test_a_signed_address_arrives_letter_by_letter() -> None:
    target = "/b/a/../c//d%2Fe%20f'g(h)?X-Sig=a%2Bb%3D&x-id=Put~%41"
    async with connected(good) as (client, server):
        await client.ask("PUT", server.url + target, body=b"x", seconds=5)
        assert server.requests[0].line == f"PUT {target} HTTP/1.1"


async def test_an_empty_body_is_announced_as_empty() -> None:
    async with connected(good) as (client, server):
        await client.ask("PUT", f"{server.url}/x", body=b"", seconds=5)
        assert server.requests[0].headers["content-length"] == "0"


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize(
    "url",
    [f"http://127.0.0.1:{free_port()}/", "http://no-such-host.invalid/", "http://127.0.0.1:0x/"],
    ids=["refused", "no such name", "no address"],
)
async def test_a_request_without_a_connection_was_never_sent(url: str) -> None:
    client = HttpClient()
    with pytest.raises(NotSentError):
        await client.ask("POST", url, body=b"{}", seconds=5)
    await client.close()


async def test_a_server_that_is_not_trusted_gets_no_request(certificate: Path) -> None:
    client = HttpClient()
    async with scripted(good, certificate) as server:
        with pytest.raises(NotSentError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.ask("POST", f"{server.url}/x", body=b"{}", seconds=5)
        assert server.requests == []
    await client.close()


async def test_verification_can_be_switched_off(certificate: Path) -> None:
    client = HttpClient(HttpTerms(verify_tls=False))
    async with scripted(good, certificate) as server:
        assert (await client.ask("GET", f"{server.url}/x", seconds=5)).status == 200
    await client.close()


async def test_the_ca_file_is_trusted_beside_the_cas_of_the_machine(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private CA of lakeFS and a public one of its block store: one client reaches both."""
    public = tmp_path / "public.pem"
    _make_certificate(public)
    monkeypatch.setenv("SSL_CERT_FILE", str(public))  # what the machine trusts
    client = HttpClient(HttpTerms(ca_file=certificate))
    async with scripted(good, certificate) as lakefs, scripted(good, public) as block_store:
        for server in (lakefs, block_store, lakefs):
            assert (await client.ask("GET", f"{server.url}/x", seconds=5)).status == 200
    await client.close()


async def test_a_ca_file_that_is_none_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    client = HttpClient(HttpTerms(ca_file=tmp_path / "ca.pem"))
    with pytest.raises(NotSentError, match=r"ca\.pem cannot be used as a CA file"):
        await client.ask("GET", "https://127.0.0.1:9/", seconds=5)
    await client.close()


def _make_certificate(path: Path) -> None:
    key = path.with_suffix(".key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=public", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(path)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    path.write_bytes(key.read_bytes() + path.read_bytes())


async def test_each_address_has_its_own_proxy_and_its_user() -> None:
    """The store is reached past a proxy, lakeFS is not."""
    async with scripted(good) as lakefs, scripted(good) as proxy:
        stores = f"http://us%40er:pa%3Ass@127.0.0.1:{proxy.port}"
        client = HttpClient(HttpTerms(proxy_of=lambda url: stores if "store" in url else None))
        await client.ask("GET", f"{lakefs.url}/direct", seconds=5)
        await client.ask("GET", "http://store.invalid/b/k", seconds=5)
        assert [request.line for request in lakefs.requests] == ["GET /direct HTTP/1.1"]
        assert [request.line for request in proxy.requests] == [
            "GET http://store.invalid/b/k HTTP/1.1"
        ]
        # Base64 of us@er:pa:ss in lower case, as the scene keeps headers.
        assert proxy.requests[0].headers["proxy-authorization"] == "basic dxnaZxi6cge6c3m=".lower()
        await client.close()


async def test_a_proxy_that_is_written_without_a_scheme_is_used_and_keeps_its_password() -> None:
    async with scripted(good) as proxy:
        address = f"user:secret@127.0.0.1:{proxy.port}"
        client = HttpClient(HttpTerms(proxy_of=lambda _: address))
        await client.ask("GET", "http://store.invalid/b/k", seconds=5)
        assert proxy.requests[0].line == "GET http://store.invalid/b/k HTTP/1.1"
        assert "proxy-authorization" in proxy.requests[0].headers
        await client.close()


async def test_a_tunnel_that_the_proxy_refuses_was_never_sent(certificate: Path) -> None:
    async def refuses(arrived: Arrived) -> bool:
        await arrived.answer(b"", "407 Proxy Authentication Required")
        return False

    async with scripted(refuses) as proxy:
        address = f"http://user:secret@127.0.0.1:{proxy.port}"
        client = HttpClient(HttpTerms(ca_file=certificate, proxy_of=lambda _: address))
        with pytest.raises(NotSentError) as raised:
            await client.ask("POST", "https://lakefs.invalid/x", body=b"{}", seconds=5)
        assert "secret" not in str(raised.value)
        assert proxy.requests[0].line == "CONNECT lakefs.invalid:443 HTTP/1.1"
        assert "proxy-authorization" in proxy.requests[0].headers
        await client.close()


async def test_user_and_password_of_an_address_are_sent_as_basic() -> None:
    async with connected(good) as (client, server):
        url = server.url.replace("://", "://user:pass@")
        await client.ask("GET", f"{url}/x", seconds=5)
        assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNz".lower()


async def test_a_dead_first_address_of_a_name_costs_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name has a dead IPv6 address first; the second one is tried beside it."""
    async with connected(good) as (client, server):
        loop = asyncio.get_running_loop()
        real = loop.getaddrinfo

        async def two(host: str, port: int, **more: int) -> list[object]:
            del more
            found = await real("127.0.0.1", port, type=socket.SOCK_STREAM)
            dead = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("100::1", port, 0, 0))
            return [dead, *found] if host == "two.example" else list(found)

        monkeypatch.setattr(loop, "getaddrinfo", two)
        began = time.monotonic()
        url = f"http://two.example:{server.port}/x"
        assert (await client.ask("GET", url, seconds=5)).status == 200
        assert time.monotonic() - began < 1.5, "less than the connect time-out of 2 s"


async def test_a_cancelled_download_frees_its_connection(tls: Path | None) -> None:
    async def endless(arrived: Arrived) -> bool:
        await arrived.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")
        while True:
            await arrived.send(PIECE)

    async with connected(endless, tls) as (client, server):

        async def download() -> None:
            async with client.exchange("GET", f"{server.url}/x", silence_seconds=5) as reply:
                async for _ in reply.pieces():
                    pass

        downloading = asyncio.create_task(download())
        await asyncio.sleep(0.2)
        downloading.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await downloading
        assert time.monotonic() - began < 0.5
        await asyncio.sleep(0.2)
        assert server.closed == 1


async def test_a_client_inherited_over_fork_works_in_the_child(certificate: Path) -> None:
    """A child process has no running loop of the parent; it opens connections of its own."""
    program = """
import asyncio, os, sys
from perago.adapters.http import HttpClient
url = sys.argv[1]
client = HttpClient()
async def ask():
    answer = await client.ask("GET", url, seconds=10)
    await client.close()
    return answer.status
async def warm():
    return (await client.ask("GET", url, seconds=10)).status
parent = asyncio.new_event_loop()
assert parent.run_until_complete(warm()) == 200
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(ask()) == 200 else 1)
_, status = os.waitpid(child, 0)
assert parent.run_until_complete(ask()) == 200
parent.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    del certificate
    async with scripted(good) as server:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, f"{server.url}/x"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 3
