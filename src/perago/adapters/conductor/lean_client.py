"""Requests to one Conductor over asyncio's own streams: HTTP/1.1, kept alive, no threads.

A tenth of the CPU of the SDK's client, which is what a busy worker spends most of. For servers
without a key and without a proxy on the way; the SDK's client serves the others. Must not know
what a request means.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import final
from urllib.parse import urlencode, urlsplit

from perago.adapters.conductor.api_request import (
    ApiClient,
    ApiRequest,
    NoAnswerError,
    NotSentError,
    RefusedError,
    RequestFailedError,
)
from perago.adapters.conductor.connection_settings import (
    ConductorSettings,
    api_address,
    shown_address,
)
from perago.adapters.conductor.error_mapping import landing_page, world_error

# Below the idle time-outs of servers and balancers: a connection they closed loses an answer.
IDLE_SECONDS_MAX = 5.0
HEAD_BYTES_MAX = 64 * 1024
ANSWER_BYTES_MAX = 256 * 1024 * 1024
NO_CONTENT = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


@dataclass(slots=True)
class _Connection:
    """One open connection and when it was used last."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back."""

    status: int
    body: bytes
    is_json: bool
    keep: bool


@final
class LeanApiClient(ApiClient):
    """One pool of connections in the loop that uses it."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._settings = settings
        self._url = api_address(settings.url)
        parts = urlsplit(self._url)
        self._host = parts.hostname or ""
        self._tls = _tls(settings) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._base = parts.path
        self._head = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nAccept: application/json, text/plain\r\n"
            "User-Agent: perago\r\n"
        )
        self._idle: deque[_Connection] = deque()
        self._calls = asyncio.Semaphore(settings.call_threads)

    @property
    def address(self) -> str:
        return shown_address(self._url)

    async def call(self, request: ApiRequest) -> object:
        sending = asyncio.create_task(self._send(request))
        try:
            answer = await _joined(sending)
        except RequestFailedError as failure:
            raise world_error(request, self.address, failure) from failure
        text = answer.body.decode("utf-8", "replace")
        if text.lstrip().startswith("<"):
            raise landing_page(request, self.address)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            refusal = RefusedError(answer.status, text)
            raise world_error(request, self.address, refusal) from refusal
        return _content(request, self.address, answer, text)

    async def close(self) -> None:
        """Close what is idle; nothing is under way when a worker ends."""
        while self._idle:
            writer = self._idle.popleft().writer
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _send(self, request: ApiRequest) -> _Answer:
        """Send once: nothing is sent again that may have left."""
        if request.is_poll:  # polls wait; they must never hold up a heartbeat
            return await self._exchange(request)
        async with self._calls:
            return await self._exchange(request)

    async def _exchange(self, request: ApiRequest) -> _Answer:
        seconds = request.timeout_seconds or self._settings.request_timeout_seconds
        connection = await self._connect(seconds)
        done = False
        try:
            async with asyncio.timeout(seconds):
                connection.writer.write(self._encoded(request))
                await connection.writer.drain()
                answer = await _read(connection.reader, request.method)
            done = answer.keep
        except TimeoutError as error:
            raise NoAnswerError(f"no answer after {seconds:g} s") from error
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        finally:
            if done:
                connection.used_at = time.monotonic()
                self._idle.append(connection)
            else:
                connection.writer.close()
        return answer

    async def _connect(self, seconds: float) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            fresh = time.monotonic() - connection.used_at < IDLE_SECONDS_MAX
            if fresh and not connection.reader.at_eof() and not connection.writer.is_closing():
                return connection
            connection.writer.close()
        try:
            async with asyncio.timeout(min(seconds, self._settings.connect_timeout_seconds)):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=HEAD_BYTES_MAX
                )
        except (OSError, TimeoutError) as error:
            raise NotSentError(f"{type(error).__name__}: {error}") from error
        return _Connection(reader, writer)

    def _encoded(self, request: ApiRequest) -> bytes:
        body, kind = b"", ""
        if request.text is not None:
            body, kind = request.text.encode(), "text/plain"
        elif request.body is not None:
            body, kind = json.dumps(request.body).encode(), "application/json"
        query = urlencode(request.query_pairs)
        target = f"{self._base}{request.path}" + (f"?{query}" if query else "")
        head = f"{request.method} {target} HTTP/1.1\r\n{self._head}"
        if kind or request.method in {"POST", "PUT"}:
            head += f"Content-Type: {kind or 'application/json'}\r\nContent-Length: {len(body)}\r\n"
        return head.encode("ascii") + b"\r\n" + body


async def _read(reader: asyncio.StreamReader, method: str) -> _Answer:
    """Read one answer to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.split("\r\n")
    version, _, after = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"{version[:20]!r} is no HTTP/1")
    status = int(after[:3])
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (each.partition(":") for each in rest if each)
    }
    body, ends = b"", True
    if status in NO_CONTENT or method == "HEAD":
        pass
    elif "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    elif "content-length" in headers:
        body = await reader.readexactly(_length(headers["content-length"], 10))
    else:
        body, ends = await reader.read(ANSWER_BYTES_MAX), False
    keep = ends and version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
    return _Answer(status, body, "json" in headers.get("content-type", ""), keep)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        line = await reader.readuntil(b"\r\n")
        length = _length(line.partition(b";")[0].decode("ascii"), 16)
        size += length
        if size > ANSWER_BYTES_MAX:
            raise ValueError("the answer is too long")
        part = await reader.readexactly(length + 2)
        if length == 0:
            return b"".join(parts)
        parts.append(part[:-2])


def _length(text: str, base: int) -> int:
    length = int(text.strip(), base)
    if not 0 <= length <= ANSWER_BYTES_MAX:
        raise ValueError(f"an answer of {length} bytes")
    return length


def _content(request: ApiRequest, address: str, answer: _Answer, text: str) -> object:
    """Parsed JSON, text, or None for an empty answer."""
    if not text:
        return None
    if not answer.is_json:
        return text
    try:
        parsed: object = json.loads(text)
    except ValueError as error:
        failure = NoAnswerError(f"not JSON: {error}")
        raise world_error(request, address, failure) from failure
    return parsed


async def _joined(sending: "asyncio.Task[_Answer]") -> _Answer:
    """Wait for a request, also when the caller is cancelled: it must not outlive its caller."""
    try:
        return await asyncio.shield(sending)
    except asyncio.CancelledError:
        while not sending.done():
            try:
                await asyncio.wait([sending])
            except asyncio.CancelledError:
                continue
        if not sending.cancelled():
            sending.exception()  # it is nobody's any more
        raise


def _tls(settings: ConductorSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file)
    if not settings.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.client_certificate is not None:
        context.load_cert_chain(settings.client_certificate, settings.client_key)
    return context
