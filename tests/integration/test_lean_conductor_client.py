"""The lean Conductor client against a server that answers word for word what a test says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from perago.adapters.conductor.api_request import ApiRequest, Effect
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.lean_client import LeanApiClient
from perago.ports.errors import (
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    UnavailableError,
    WorldError,
)

READ = ApiRequest("read", "GET", "/tasks/x", query={"count": 2, "domain": None, "all": True})
WRITE = ApiRequest("write", "POST", "/tasks", body={"a": "ü"}, effect=Effect.WRITE)
JSON = b"Content-Type: application/json\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
MISSING = b'{"status":404,"message":"No such task found by id: x"}'


def sized(body: bytes, head: bytes = OK + JSON) -> bytes:
    """An answer with its length."""
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@dataclass
class Server:
    """Answers requests in order; None closes without a word."""

    answers: list[bytes | None]
    requests: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0
    delay: float = 0.0
    serving: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
                self.requests.append(head + await reader.readexactly(int(length or 0)))
                await asyncio.sleep(self.delay)
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if b"Connection: close" in answer or b"Length" not in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[LeanApiClient]:
    """A client of that server."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = LeanApiClient(
        ConductorSettings(f"http://127.0.0.1:{port}/api", request_timeout_seconds=0.5)
    )
    try:
        yield client
    finally:
        await client.close()
        listening.close()
        await listening.wait_closed()
        if server.serving:
            await asyncio.wait(server.serving)
        await asyncio.sleep(0.05)  # its ends close in the loop's next turns


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (sized(b'{"a": [1, null]}'), {"a": [1, None]}),
        (sized(b"some-id", OK + b"Content-Type: text/plain\r\n"), "some-id"),
        (sized(b""), None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", None),
        (
            OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n",
            [1, 2],
        ),
        (OK + JSON + b"Connection: close\r\n\r\n[3]", [3]),
    ],
    ids=["json", "text", "empty", "no content", "chunked", "until the end"],
)
async def test_answers(answer: bytes, content: object) -> None:
    server = Server([answer])
    async with connected(server) as client:
        assert await client.call(READ) == content
    (request,) = server.requests
    assert request.startswith(b"GET /api/tasks/x?count=2&all=true HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("answer", "read", "write"),
    [
        (None, UnavailableError, OutcomeUnknownError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", UnavailableError, OutcomeUnknownError),
        (sized(b"{", OK + JSON), UnavailableError, OutcomeUnknownError),
        (OK + b"Content-Length: 9\r\n\r\nabc", UnavailableError, OutcomeUnknownError),
        (sized(b"<html>", OK), UnavailableError, OutcomeUnknownError),
        (sized(b"x", b"HTTP/1.1 500 Oh\r\n"), UnavailableError, OutcomeUnknownError),
        (sized(b"x", b"HTTP/1.1 503 Oh\r\n"), UnavailableError, OutcomeUnknownError),
        (sized(MISSING, b"HTTP/1.1 404 Not Found\r\n"), MissingError, MissingError),
        (sized(b"x", b"HTTP/1.1 400 Bad\r\n"), RequestRefusedError, RequestRefusedError),
    ],
    ids=["closed", "no HTTP", "half", "cut", "page", "500", "503", "404", "400"],
)
async def test_failures(
    answer: bytes | None, read: type[WorldError], write: type[WorldError]
) -> None:
    for request, error in ((READ, read), (WRITE, write)):
        server = Server([answer])
        async with connected(server) as client:
            with pytest.raises(error):
                await client.call(request)
        assert len(server.requests) == 1, "nothing is sent again"


async def test_a_silent_server_is_left_after_the_time_out() -> None:
    server = Server([sized(b"1")], delay=1.0)
    async with connected(server) as client:
        with pytest.raises(OutcomeUnknownError, match=r"no answer after 0\.5 s"):
            await client.call(WRITE)


async def test_what_was_never_sent_is_known_not_to_have_happened() -> None:
    client = LeanApiClient(ConductorSettings("http://127.0.0.1:1/api"))
    with pytest.raises(UnavailableError, match="not sent"):
        await client.call(WRITE)


async def test_a_connection_is_used_again_and_a_closed_one_is_not() -> None:
    closing = sized(b"3", OK + JSON + b"Connection: close\r\n")
    server = Server([sized(b"1"), sized(b"2"), closing, sized(b"4")])
    async with connected(server) as client:
        assert [await client.call(READ) for _ in range(4)] == [1, 2, 3, 4]
    assert server.connections == 2


async def test_a_cancelled_call_waits_for_the_answer_of_its_request() -> None:
    server = Server([sized(b"1"), sized(b"2")], delay=0.2)
    async with connected(server) as client:
        calling = asyncio.create_task(client.call(WRITE))
        await asyncio.sleep(0.05)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert server.answers == [sized(b"2")], "the first was answered before the call ended"
        assert await client.call(READ) == 2


async def test_closing_twice_is_fine() -> None:
    async with connected(Server([sized(b"1")])) as client:
        await client.call(READ)
        await client.close()
