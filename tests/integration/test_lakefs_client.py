"""Short requests to lakeFS: where one can fail, before it left or after, and how often it leaves.

What counts is what the server saw.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived, Script, ScriptedServer, scripted

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.answers import Failure, Lost, NotSent, Operation, Refused
from perago.adapters.lakefs.client import (
    QUESTIONS_MAX,
    ApiRequest,
    FailedRequestError,
    LakeFSClient,
)
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RetryTerms
from perago.ports.errors import (
    AccessDeniedError,
    OutcomeUnknownError,
    ServiceError,
    UnavailableError,
)
from perago.ports.telemetry import count_requests

REQUEST = ApiRequest("GET", ("repositories", "r"))
READ = Operation("read", "r")
WRITE = Operation("write", "r", writes=True)


def client_of(url: str, terms: HttpTerms | None = None, at_once: int = 48) -> LakeFSClient:
    return LakeFSClient(
        LakeFSConfiguration(
            endpoint_url=url,
            access_key_id="key",
            secret_access_key="secret",
            http=terms or HttpTerms(connect_seconds=1.0),
            answer_seconds=0.5,
            requests_concurrent_max=at_once,
        )
    )


@asynccontextmanager
async def asking(
    script: Script, *, at_once: int = 48
) -> AsyncGenerator[tuple[LakeFSClient, ScriptedServer]]:
    async with scripted(script) as server:
        client = client_of(server.url, at_once=at_once)
        yield client, server
        client.close()


async def fails_with(client: LakeFSClient) -> object:
    """What became of one request; the client is closed."""
    try:
        return await client.attempt(REQUEST, json.loads)
    finally:
        client.close()


async def reset(arrived: Arrived) -> bool:
    """Break the connection without an answer."""
    arrived.reset()
    return False


async def cut(arrived: Arrived) -> bool:
    """Begin an answer and stop."""
    await arrived.send(b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"id": ')
    return False


async def silent(arrived: Arrived) -> bool:
    """Never answer."""
    del arrived
    await asyncio.sleep(60)
    return False


def says(body: bytes, status: str = "200 OK") -> Script:
    async def script(arrived: Arrived) -> bool:
        await arrived.read_body()
        await arrived.answer(body, status)
        return True

    return script


async def test_a_port_without_a_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    assert isinstance(await fails_with(client_of(url)), NotSent)
    proxied = HttpTerms(proxy_of=lambda _: url)
    assert isinstance(await fails_with(client_of("http://lakefs.test", proxied)), NotSent)


async def test_an_unknown_host() -> None:
    assert isinstance(await fails_with(client_of("http://lakefs.invalid")), NotSent)


async def test_an_untrusted_certificate(certificate: Path) -> None:
    async with scripted(says(b"{}"), certificate) as server:
        assert isinstance(await fails_with(client_of(server.url)), NotSent)
        assert server.requests == []


async def test_tls_spoken_to_a_plain_server() -> None:
    async with scripted(says(b"{}")) as server:
        url = server.url.replace("http:", "https:")
        assert isinstance(await fails_with(client_of(url)), NotSent)
        assert server.requests == []


async def test_a_ca_file_that_is_missing_is_named_before_anything_is_sent() -> None:
    client = client_of("https://127.0.0.1:1", HttpTerms(ca_file=Path("absent.pem")))

    failure = await fails_with(client)

    assert isinstance(failure, NotSent)
    assert "absent.pem" in failure.text


@pytest.mark.parametrize(
    ("script", "broken"),
    [
        (silent, False),
        (reset, True),
        (cut, True),
        (says(b"\xff"), False),
        (says(b"a page"), False),
        (says(b""), False),
    ],
    ids=["silence", "reset", "cut", "not text", "not JSON", "nothing"],
)
async def test_after_the_request_left(script: Script, broken: bool) -> None:  # noqa: FBT001 - a column
    async with asking(script) as (client, server):
        failure = await client.attempt(REQUEST, json.loads)

        assert isinstance(failure, Lost)
        assert failure.broken is broken
        assert len(server.requests) == 1


async def test_an_answer_that_lacks_a_field_is_no_answer() -> None:
    async with asking(says(b"{}")) as (client, _):
        failure = await client.attempt(REQUEST, lambda body: str(json.loads(body)["id"]))

        assert failure == Lost("unusable answer '{}': KeyError: 'id'")


async def test_an_answer_with_a_status_is_a_refusal() -> None:
    async with asking(says(b'{"message":"tag not found"}', "404 Not Found")) as (client, _):
        assert await client.attempt(REQUEST, bytes) == Refused(404, "tag not found")


@pytest.mark.parametrize("script", [reset, cut])
async def test_a_read_is_asked_once_more_and_a_write_never(script: Script) -> None:
    async with asking(script) as (client, server):
        with pytest.raises(UnavailableError):
            await client.ask(READ, REQUEST, bytes)
        assert len(server.requests) == 2

        with pytest.raises(OutcomeUnknownError):
            await client.ask(WRITE, ApiRequest("POST", ("repositories",), content={}), bytes)
        assert len(server.requests) == 3


async def test_a_read_that_met_silence_is_not_asked_again() -> None:
    async with asking(silent) as (client, server):
        with pytest.raises(UnavailableError):
            await client.ask(READ, REQUEST, bytes)

        assert len(server.requests) == 1


async def test_short_questions_have_a_bound_of_their_own() -> None:
    at_once, most = 0, 0

    async def slow(arrived: Arrived) -> bool:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        await arrived.answer(b"{}")
        return True

    async with asking(slow, at_once=3) as (client, server):
        questions = 2 * QUESTIONS_MAX
        await asyncio.gather(*(client.ask(READ, REQUEST, bytes) for _ in range(questions)))

        assert (most, len(server.requests)) == (QUESTIONS_MAX, questions)


async def test_a_request_says_who_asks_what() -> None:
    async with asking(says(b"{}")) as (client, server):
        query = {"prefix": "a b/ü", "after": ""}
        path = ("repositories", "r", "refs", "main@", "objects", "ls")
        await client.ask(READ, ApiRequest("GET", path, query, {"a": 1}), bytes)

        (arrived,) = server.requests
        assert arrived.line == (
            "GET /api/v1/repositories/r/refs/main%40/objects/ls?prefix=a%20b%2F%C3%BC&after="
            " HTTP/1.1"
        )
        assert (
            arrived.headers["authorization"] == "basic a2v5onnly3jlda=="
        )  # the scene's lower case
        assert arrived.headers["content-type"] == "application/json"
        assert arrived.body == b'{"a": 1}'


async def test_every_attempt_is_counted_for_who_began_it() -> None:
    count = count_requests()
    async with asking(reset) as (client, _):
        with pytest.raises(UnavailableError):
            await client.ask(READ, REQUEST, bytes)

    assert count.sent == 2


async def test_a_client_serves_any_loop() -> None:
    async with asking(says(b"{}")) as (client, server):
        assert await client.ask(READ, REQUEST, bytes) == b"{}"

        def from_another_loop() -> bytes:
            return asyncio.run(client.ask(READ, REQUEST, bytes))

        assert await asyncio.to_thread(from_another_loop) == b"{}"
        assert server.connections == 1  # both used the one that was kept


async def test_a_client_inherited_over_fork_works_in_the_child() -> None:
    program = """
import asyncio, os, sys
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration
configuration = LakeFSConfiguration(
    endpoint_url=sys.argv[1], access_key_id="a", secret_access_key="b"
)
client = LakeFSClient(configuration)
def ask():
    return asyncio.run(client.attempt(ApiRequest("GET", ("config",)), bytes)) == b"{}"
assert ask()
child = os.fork()
if child == 0:
    fine = ask()
    client.close()
    os._exit(0 if fine else 1)
_, status = os.waitpid(child, 0)
assert ask()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    async with scripted(says(b"{}")) as server:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, server.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )
        assert done.returncode == 0, done.stderr
        assert (len(server.requests), server.connections) == (3, 2)


async def test_children_of_one_process_come_back_at_different_moments() -> None:
    program = """
import asyncio, os, sys
from perago.adapters.lakefs import client as module
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RetryTerms
from perago.adapters.lakefs.answers import Operation
from perago.ports.errors import UnavailableError
configuration = LakeFSConfiguration(
    endpoint_url="http://127.0.0.1:9", access_key_id="a", secret_access_key="b"
)
client = module.LakeFSClient(configuration)
drawn = []
def give_up(terms, *, chance, **_):
    drawn.append(chance)
RetryTerms.pause_before = give_up
def fail():
    request = module.ApiRequest("GET", ("config",))
    try:
        asyncio.run(client.run(client.insist(Operation("ask", "it"), request, bytes)))
    except UnavailableError:
        return drawn[-1]
print(fail(), flush=True)
for _ in range(2):
    child = os.fork()
    if child == 0:
        print(fail(), flush=True)
        client.close()
        os._exit(0)
    os.waitpid(child, 0)
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(set(done.stdout.split())) == 3, done.stdout


async def test_a_closed_client_sends_nothing() -> None:
    async with asking(says(b"{}")) as (client, server):
        await client.ask(READ, REQUEST, bytes)
        client.close()

        with pytest.raises(UnavailableError, match="closed, so nothing was sent"):
            await client.ask(READ, REQUEST, bytes)
        assert len(server.requests) == 1


async def test_who_waits_for_a_client_that_is_closed_meanwhile_gets_an_error() -> None:
    arrived = asyncio.Event()

    async def never(_: Arrived) -> bool:
        arrived.set()
        await asyncio.sleep(60)
        return False

    async with asking(never) as (client, server):
        waiting = asyncio.create_task(client.run(client.insist(WRITE, REQUEST, bytes)))
        await arrived.wait()
        await asyncio.to_thread(client.close)
        with pytest.raises(OutcomeUnknownError, match="closed meanwhile"):
            await asyncio.wait_for(waiting, timeout=5.0)
        assert len(server.requests) == 1


@pytest.mark.parametrize("later", [NotSent("refused"), Refused(403, "no"), Refused(429, "wait")])
@pytest.mark.parametrize("earlier", [Lost("cut"), Refused(502, "a gateway")])
async def test_a_write_whose_answer_was_lost_once_stays_unknown(
    earlier: Failure, later: Failure
) -> None:
    error = await error_of_repeating(earlier, later, writes=True)
    assert type(error) is OutcomeUnknownError
    assert earlier.text in str(error)
    assert later.text in str(error)


@pytest.mark.parametrize(
    ("later", "expected"),
    [(NotSent("refused"), UnavailableError), (Refused(403, "no"), AccessDeniedError)],
)
async def test_what_a_write_that_never_left_met_last_is_what_became_of_it(
    later: Failure, expected: type[ServiceError]
) -> None:
    assert type(await error_of_repeating(NotSent("refused"), later, writes=True)) is expected
    assert type(await error_of_repeating(Lost("cut"), later, writes=False)) is expected


async def error_of_repeating(earlier: Failure, later: Failure, *, writes: bool) -> ServiceError:
    """How a request ends that fails in one way, and in another way from then on."""
    failures = chain([earlier], repeat(later))

    async def attempt() -> None:
        raise FailedRequestError(next(failures))

    terms = RetryTerms(seconds_max=0.05, first_pause_seconds=0.01)
    client = LakeFSClient(replace(client_of("http://127.0.0.1:9").configuration, retry=terms))
    try:
        with pytest.raises(ServiceError) as raised:
            await client.run(client.repeat(Operation("store", "a/b", writes=writes), attempt))
        return raised.value
    finally:
        client.close()
