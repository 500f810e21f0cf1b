"""The SDK's client behind our door: what goes out, what comes in, tokens, threads, cancelling."""

import asyncio
import json
import multiprocessing
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from perago.adapters.conductor.api_request import ApiRequest, Effect
from perago.adapters.conductor.client import SdkApiClient
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.http_connection import HttpConnection
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    UnavailableError,
)

URL = "http://conductor:8080/api"
Server = Callable[[httpx.Request], httpx.Response]


@asynccontextmanager
async def client_of(server: Server, **more: str) -> AsyncGenerator[SdkApiClient]:
    """A client whose requests end in a function."""

    def connect(settings: ConductorSettings) -> HttpConnection:
        return HttpConnection(settings, httpx.MockTransport(server))

    client = SdkApiClient(
        ConductorSettings(URL, auth_key=more.get("auth_key"), auth_secret=more.get("auth_secret")),
        connect,
    )
    try:
        yield client
    finally:
        client.close()


READ = ApiRequest("read", "GET", "/tasks/7")
WRITE = ApiRequest("write", "POST", "/tasks", body={"a": [1, None]}, effect=Effect.WRITE)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (httpx.Response(200, json={"a": None}), {"a": None}),
        (httpx.Response(200, json=[]), []),
        (httpx.Response(200, text="an-id"), "an-id"),
        (httpx.Response(200), None),
        (httpx.Response(204), None),
    ],
    ids=["object", "empty list", "text", "empty", "no content"],
)
async def test_an_answer_is_json_or_text_or_nothing(answer: httpx.Response, value: object) -> None:
    async with client_of(lambda _: answer) as client:
        assert await client.call(READ) == value


async def test_a_body_goes_out_as_it_is() -> None:
    seen: list[httpx.Request] = []

    def server(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, text="7")

    async with client_of(server) as client:
        await client.call(WRITE)
        await client.call(
            ApiRequest("log", "POST", "/tasks/7/log", text='"ü"\n', effect=Effect.WRITE)
        )
        await client.call(
            ApiRequest("poll", "GET", "/tasks/poll", {"count": 2, "domain": None}, is_poll=True)
        )
    assert [request.read() for request in seen] == [b'{"a": [1, null]}', '"ü"\n'.encode(), b""]
    assert str(seen[2].url) == f"{URL}/tasks/poll?count=2"


async def test_a_landing_page_is_no_answer() -> None:
    async with client_of(lambda _: httpx.Response(200, text="\n<!DOCTYPE html>")) as client:
        with pytest.raises(UnavailableError, match="usually /api"):
            await client.call(READ)


async def test_a_refusal_of_conductor_is_mapped() -> None:
    gone = httpx.Response(404, json={"status": 404, "message": "Task not found for taskId: 7"})
    async with client_of(lambda _: gone) as client:
        with pytest.raises(MissingError, match="not found for taskId"):
            await client.call(READ)


@pytest.mark.parametrize(
    ("request_", "error"), [(READ, UnavailableError), (WRITE, OutcomeUnknownError)]
)
async def test_a_lost_answer_is_unknown_only_for_a_write(
    request_: ApiRequest, error: type[Exception]
) -> None:
    def server(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset")

    async with client_of(server) as client:
        with pytest.raises(error):
            await client.call(request_)


async def test_a_refused_connection_changed_nothing() -> None:
    def server(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with client_of(server) as client:
        with pytest.raises(UnavailableError, match="not sent"):
            await client.call(WRITE)


class Guarded:
    """A server with tokens, the first of which it no longer takes."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.tokens = 0
        self.is_open = is_open
        self.credentials: list[object] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Give out tokens, or ask for one."""
        if request.url.path.endswith("/token"):
            self.tokens += 1
            self.credentials.append(json.loads(request.read()))
            if not self.is_open:
                return httpx.Response(401, json={"error": "INVALID"})
            return httpx.Response(200, json={"token": f"token-{self.tokens}"})
        if request.headers.get("X-Authorization") != "token-2":
            return httpx.Response(401, json={"message": "who are you"})
        return httpx.Response(200, text=request.read().decode() or "served")


@pytest.mark.parametrize(
    "request_", [READ, ApiRequest("log", "POST", "/log", text="served")], ids=["json", "text"]
)
async def test_a_token_that_is_refused_is_renewed_once(request_: ApiRequest) -> None:
    server = Guarded()
    async with client_of(server, auth_key="key", auth_secret="secret") as client:
        assert await client.call(request_) == "served"
    assert server.credentials == [{"keyId": "key", "keySecret": "secret"}] * 2


async def test_refused_credentials_are_an_error_without_the_secret() -> None:
    async with client_of(Guarded(is_open=False), auth_key="key", auth_secret="hidden") as client:
        with pytest.raises(AccessDeniedError, match="CONDUCTOR_AUTH_KEY") as raised:
            await client.call(READ)
    assert "hidden" not in str(raised.value)


async def test_a_request_does_not_outlive_its_cancelled_caller() -> None:
    arrived, answer_now, ended = threading.Event(), threading.Event(), threading.Event()

    def server(_: httpx.Request) -> httpx.Response:
        arrived.set()
        answer_now.wait(5)
        ended.set()
        return httpx.Response(200)

    async with client_of(server) as client:
        call = asyncio.create_task(client.call(WRITE))
        await asyncio.to_thread(arrived.wait, 5)
        call.cancel()
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.sleep(0.01)
        assert not call.done()
        answer_now.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()


async def test_the_sdk_leaves_the_start_method_of_processes_alone() -> None:
    before = multiprocessing.get_start_method(allow_none=True)
    async with client_of(lambda _: httpx.Response(204)) as client:
        await client.call(READ)
    assert multiprocessing.get_start_method(allow_none=True) == before
