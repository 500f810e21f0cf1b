"""The Conductor client against a server that answers word for word what a test says."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived, ScriptedServer, scripted

from perago.adapters.conductor.client import (
    ApiRequest,
    ConductorClient,
    ConductorSettings,
    NotConductorError,
)
from perago.adapters.conductor.installation import ConductorTaskQueue
from perago.adapters.http import HttpTerms
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)

READ = ApiRequest("read", "GET", "/tasks/x", query={"count": 2, "domain": None, "all": True})
WRITE = ApiRequest("write", "POST", "/tasks", body={"a": ["ü", None]})
TEXT = "text/plain"
PAGE = b"<html>502 Bad Gateway</html>"


@dataclass(frozen=True)
class Said:
    """A whole answer; what is not bytes goes out as JSON."""

    body: object
    status: str = "200 OK"
    kind: str = "application/json"


NOTHING_THERE: list[object] = []


@asynccontextmanager
async def connected(
    script: Callable[[Arrived], object],
    *,
    seconds: float = 5.0,
    keyed: bool = False,
    tls: Path | None = None,
    user: str = "",
) -> AsyncGenerator[tuple[ConductorClient, ScriptedServer]]:
    """A client of a server that runs the script after it has read a request."""

    async def answers(arrived: Arrived) -> bool:
        await arrived.read_body()
        result = script(arrived)
        if asyncio.iscoroutine(result):
            result = await result
        if isinstance(result, Said):
            content = result.body
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            await arrived.answer(content, result.status, f"Content-Type: {result.kind}")
            return True
        if isinstance(result, bytes):
            await arrived.send(result)
        return False

    async with scripted(answers, tls) as server:
        client = ConductorClient(
            ConductorSettings(
                f"{server.url.replace('://', f'://{user}')}/api",
                auth_key="key" if keyed else None,
                auth_secret="hidden" if keyed else None,
                http=HttpTerms(ca_file=tls),
                request_timeout_seconds=seconds,
            )
        )
        try:
            yield client, server
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (Said({"a": [1, None]}), {"a": [1, None]}),
        (Said(NOTHING_THERE), []),
        (Said(b'"\\ud83d"'), "\ud83d"),
        (Said(b"some-id", kind=TEXT), "some-id"),
        (Said(b""), None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", None),
    ],
    ids=["object", "empty list", "half a character", "text", "empty", "no content"],
)
async def test_an_answer_is_json_or_text_or_nothing(answer: object, content: object) -> None:
    async with connected(lambda _: answer) as (client, server):
        assert await client.call(READ) == content
    (request,) = server.requests
    assert request.line == "GET /api/tasks/x?count=2&all=true HTTP/1.1"


async def test_a_body_goes_out_as_it_is() -> None:
    async with connected(lambda _: Said(b"7", kind=TEXT)) as (client, server):
        await client.call(WRITE)
        await client.call(ApiRequest("log", "POST", "/log", text='"ü"\n'))
        await client.call(ApiRequest("retry", "POST", "/workflow/1/retry"))
    bodies = [request.body for request in server.requests]
    assert bodies == ['{"a":["ü",null]}'.encode(), '"ü"\n'.encode(), b""]
    kinds = [request.headers["content-type"] for request in server.requests]
    assert kinds == ["application/json", "text/plain", "application/json"]


GONE = Said({"status": 404, "message": "No such task found by id: x"}, "404 Not Found")


@pytest.mark.parametrize(
    ("answer", "read", "write"),
    [
        (None, UnavailableError, OutcomeUnknownError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", UnavailableError, OutcomeUnknownError),
        (Said(b"{"), UnavailableError, OutcomeUnknownError),
        (Said(b"x", "500 Oh", TEXT), UnavailableError, OutcomeUnknownError),
        (Said(PAGE, "502 Bad Gateway", TEXT), UnavailableError, OutcomeUnknownError),
        (Said(PAGE, "503 Service Unavailable", TEXT), UnavailableError, OutcomeUnknownError),
        (Said(PAGE, "504 Gateway Timeout", TEXT), UnavailableError, OutcomeUnknownError),
        (Said(b"", "429 Too Many Requests", TEXT), UnavailableError, UnavailableError),
        (GONE, MissingError, MissingError),
        (Said(PAGE, "404 Not Found", TEXT), NotConductorError, NotConductorError),
        (Said(b"", "302 Found", TEXT), NotConductorError, NotConductorError),
        (Said(b"x", "400 Bad", TEXT), RequestRefusedError, RequestRefusedError),
    ],
    ids=[
        "closed",
        "no HTTP",
        "half",
        "500",
        "502",
        "503",
        "504",
        "429",
        "404",
        "other 404",
        "302",
        "400",
    ],
)
async def test_each_failure_has_its_meaning_and_nothing_is_sent_again(
    answer: object, read: type[ServiceError], write: type[ServiceError]
) -> None:
    for request, error in ((READ, read), (WRITE, write)):
        async with connected(lambda _: answer) as (client, server):
            with pytest.raises(error):
                await client.call(request)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, UnavailableError),
        (Said(b"{"), UnavailableError),
        (Said({"no": "token"}), UnavailableError),
        (Said(PAGE, kind="text/html"), UnavailableError),
        (Said(PAGE, "502 Bad Gateway", TEXT), UnavailableError),
        (Said(b"x", "500 Oh", TEXT), UnavailableError),
        (Said(b"", "408 Request Timeout", TEXT), UnavailableError),
        (Said(b"", "429 Too Many Requests", TEXT), UnavailableError),
        (Said(b"", "302 Found", TEXT), NotConductorError),
        (Said(b"x", "401 Unauthorized", TEXT), AccessDeniedError),
        (Said(b"x", "400 Bad", TEXT), RequestRefusedError),
    ],
    ids=["closed", "half", "none", "page", "502", "500", "408", "429", "302", "401", "400"],
)
@pytest.mark.parametrize("request_", [WRITE, replace(READ, is_poll=True)], ids=["write", "poll"])
async def test_what_waits_for_a_token_that_does_not_come_was_never_sent(
    answer: object, expected: type[ServiceError], request_: ApiRequest
) -> None:
    async with connected(lambda _: answer, keyed=True) as (client, server):
        with pytest.raises(
            expected, match=f"{request_.purpose}: not sent: ask for a token"
        ) as raised:
            await client.call(request_)
    assert type(raised.value) is expected
    assert [arrived.line for arrived in server.requests] == ["POST /api/token HTTP/1.1"]


async def test_a_refused_write_whose_new_token_does_not_come_was_never_done() -> None:
    tokens = iter([Said({"token": "old"}), Said(b"x", "500 Oh", TEXT)])

    def refuses(arrived: Arrived) -> object:
        if "/token" in arrived.line:
            return next(tokens)
        return Said(b"expired", "401 Unauthorized", TEXT)

    async with connected(refuses, keyed=True) as (client, server):
        with pytest.raises(UnavailableError, match="not sent"):
            await client.call(WRITE)
    assert len(server.requests) == 3


async def test_a_landing_page_says_that_the_address_is_wrong() -> None:
    async with connected(lambda _: Said(b"\n<!DOCTYPE html>", kind=TEXT)) as (client, _):
        with pytest.raises(UnavailableError, match="usually /api"):
            await client.call(READ)


async def test_the_page_of_a_balancer_says_its_status_and_blames_no_address() -> None:
    async with connected(lambda _: Said(PAGE, "502 Bad Gateway", TEXT)) as (client, _):
        with pytest.raises(UnavailableError, match="502") as raised:
            await client.call(READ)
    assert "usually /api" not in str(raised.value)


async def test_a_silent_server_is_left_after_the_time_out() -> None:
    async def sleeps(_: Arrived) -> None:
        await asyncio.sleep(60)

    async with connected(sleeps, seconds=0.3) as (client, _):
        with pytest.raises(OutcomeUnknownError, match=r"no answer after 0\.3 s"):
            await client.call(WRITE)


async def test_what_was_never_sent_is_known_not_to_have_happened() -> None:
    client = ConductorClient(ConductorSettings("http://127.0.0.1:1/api"))
    with pytest.raises(UnavailableError, match="not sent"):
        await client.call(WRITE)
    await client.close()


async def test_a_connection_is_used_again() -> None:
    async with connected(lambda _: Said(NOTHING_THERE)) as (client, server):
        for _ in range(3):
            await client.call(READ)
        assert server.connections == 1


async def test_a_request_does_not_outlive_its_cancelled_caller() -> None:
    """A heartbeat that arrives after a terminal update can undo it."""
    answer_now, ended = asyncio.Event(), asyncio.Event()

    async def waits(_: Arrived) -> object:
        await answer_now.wait()
        ended.set()
        return Said(b"", kind=TEXT)

    async with connected(waits) as (client, _):
        call = asyncio.create_task(client.call(WRITE))
        for _ in range(2):
            await asyncio.sleep(0.05)
            call.cancel()
        await asyncio.sleep(0.05)
        assert not call.done()
        answer_now.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()


class Guarded:
    """A server with tokens, the first of which it no longer takes."""

    def __init__(self, answer: str = "200 OK") -> None:
        self.answer = answer
        self.tokens = 0
        self.keys: list[object] = []

    def __call__(self, arrived: Arrived) -> object:
        """Give out tokens, or ask for one."""
        if " /api/token " in arrived.line:
            self.tokens += 1
            self.keys.append(json.loads(arrived.body))
            return Said({"token": f"token-{self.tokens}"}, self.answer)
        if arrived.headers.get("x-authorization") != "token-2":
            return Said({"message": "who are you"}, "401 Unauthorized")
        return Said(arrived.body or b"served", kind=TEXT)


@pytest.mark.parametrize(
    "request_", [READ, ApiRequest("log", "POST", "/log", text="served")], ids=["json", "text"]
)
async def test_a_token_that_is_refused_is_asked_for_again_once(request_: ApiRequest) -> None:
    guarded = Guarded()
    async with connected(guarded, keyed=True) as (client, _):
        assert await client.call(request_) == "served"
        assert await client.call(request_) == "served"
    assert guarded.keys == [{"keyId": "key", "keySecret": "hidden"}] * 2


async def test_requests_that_wait_for_a_token_ask_for_it_once() -> None:
    guarded = Guarded()
    async with connected(guarded, keyed=True) as (client, _):
        await asyncio.gather(*(client.call(READ) for _ in range(8)))
    assert guarded.tokens == 2


async def test_refused_keys_are_an_error_without_the_secret() -> None:
    async with connected(Guarded("401 Unauthorized"), keyed=True) as (client, server):
        with pytest.raises(AccessDeniedError, match="CONDUCTOR_AUTH_KEY") as raised:
            await client.call(READ)
    assert "hidden" not in str(raised.value)
    assert len(server.requests) == 1, "nothing but the token was asked for"


async def test_a_server_without_tokens_is_asked_without_one() -> None:
    def plain(arrived: Arrived) -> object:
        return (
            Said(b"", "404 Not Found", TEXT)
            if "/token" in arrived.line
            else Said(b"served", kind=TEXT)
        )

    async with connected(plain, keyed=True) as (client, server):
        assert await client.call(READ) == "served"
    assert "x-authorization" not in server.requests[-1].headers


@pytest.mark.parametrize("keyed", [False, True], ids=["open", "keyed"])
async def test_user_and_password_of_the_address_reach_conductor(*, keyed: bool) -> None:
    """A gateway before Conductor asks for them, also beside a key."""

    def says(arrived: Arrived) -> object:
        found = {"token": "t"} if "/token" in arrived.line else arrived.headers["authorization"]
        return Said(found)

    async with connected(says, keyed=keyed, user="us%40er:pass@") as (client, server):
        # Base64 of us@er:pass in lower case, as the scene keeps headers.
        assert await client.call(READ) == "basic dxnazxi6cgfzcw=="
    assert all("authorization" in request.headers for request in server.requests)


async def test_tls_with_a_private_ca_and_a_key_reaches_conductor(certificate: Path) -> None:
    async with connected(Guarded(), keyed=True, tls=certificate) as (client, _):
        assert await client.call(READ) == "served"


async def test_polls_wait_beside_each_other_and_reads_do_not_wait_for_them() -> None:
    async def answers(arrived: Arrived) -> object:
        if "/poll/" in arrived.line:
            await asyncio.sleep(1.0)
            return Said(NOTHING_THERE)
        return Said(b"3.32.3", kind=TEXT)

    poll = ApiRequest("poll", "GET", "/tasks/poll/batch/t", is_poll=True)
    async with connected(answers) as (client, _):
        polls = [asyncio.create_task(client.call(poll)) for _ in range(40)]
        await asyncio.sleep(0.3)
        assert await ConductorTaskQueue(client).check() == "3.32.3"
        assert not any(waiting.done() for waiting in polls)
        await asyncio.gather(*polls)
