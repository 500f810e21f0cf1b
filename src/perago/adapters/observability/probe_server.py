"""Answers probes and metrics over HTTP on one address: four paths, GET only, no body read.

What is true is asked of functions; nothing is known of workers. One request a connection.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

REQUEST_SECONDS_MAX = 5.0
REQUEST_BYTES_MAX = 8192
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ProbeAnswers:
    """A question for each probe, and the text of the metrics."""

    probes: Mapping[str, Callable[[], bool]]
    metrics: Callable[[], str]


@asynccontextmanager
async def probe_server(host: str, port: int, answers: ProbeAnswers) -> AsyncGenerator[int]:
    """Serve for the block; the port that was taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                with contextlib.suppress(asyncio.IncompleteReadError):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_answer(head.decode("latin-1"), answers))
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


def _answer(head: str, answers: ProbeAnswers) -> bytes:
    method, _, rest = head.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in {"GET", "HEAD"}:
        return _response(HTTPStatus.METHOD_NOT_ALLOWED, "GET only\n")
    if path == "/metrics":
        return _response(HTTPStatus.OK, answers.metrics(), METRICS_TYPE)
    probe = answers.probes.get(path)
    if probe is None:
        return _response(HTTPStatus.NOT_FOUND, "not found\n")
    if probe():
        return _response(HTTPStatus.OK, "ok\n")
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, "not ok\n")


def _response(status: HTTPStatus, text: str, content_type: str = "text/plain") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
