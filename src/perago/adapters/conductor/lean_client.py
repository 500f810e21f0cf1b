"""Requests to one Conductor over asyncio's own transports: HTTP/1.1, kept alive, no threads.

A tenth of the CPU of the SDK's client, which is what a busy worker spends most of. For servers
without a key and without a proxy on the way; the SDK's client serves the others. Must not know
what a request means.
"""

import asyncio
import json
import ssl
import time
from collections import deque
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import final
from urllib.parse import urlencode, urlsplit

import pydantic_core

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
from perago.adapters.conductor.http_answer import Answer
from perago.adapters.conductor.lean_connection import LeanConnection
from perago.ports.request_count import request_sent

# Below the idle time-outs of servers and balancers: a connection they closed loses an answer.
IDLE_SECONDS_MAX = 5.0
QUERIES_KEPT = 64


@final
class LeanApiClient(ApiClient):
    """One pool of connections in the loop that uses it."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._settings = settings
        self._url = api_address(settings.url)
        self._address = shown_address(self._url)
        parts = urlsplit(self._url)
        self._host = parts.hostname or ""
        self._tls = _tls(settings) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._base = parts.path
        self._head = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nAccept: application/json, text/plain\r\n"
            "User-Agent: perago\r\n"
        )
        self._idle: deque[LeanConnection] = deque()
        self._calls = asyncio.Semaphore(settings.call_threads)

    @property
    def address(self) -> str:
        return self._address

    async def call(self, request: ApiRequest) -> object:
        request_sent()
        try:
            answer = await self._send(request)
        except RequestFailedError as failure:
            raise world_error(request, self.address, failure) from failure
        if answer.body.lstrip().startswith(b"<"):
            raise landing_page(request, self.address)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            refusal = RefusedError(answer.status, _text(answer))
            raise world_error(request, self.address, refusal) from refusal
        return _content(request, self.address, answer)

    async def close(self) -> None:
        """Close what is idle; nothing is under way when a worker ends."""
        while self._idle:
            self._idle.popleft().close()
        await asyncio.sleep(0)  # sockets close in the loop's next turn

    async def _send(self, request: ApiRequest) -> Answer:
        """Send once: nothing is sent again that may have left."""
        if request.is_poll:  # polls wait; they must never hold up a heartbeat
            return await self._exchange(request)
        async with self._calls:
            return await self._exchange(request)

    async def _exchange(self, request: ApiRequest) -> Answer:
        seconds = request.timeout_seconds or self._settings.request_timeout_seconds
        message = self._encoded(request)
        connection = self._idle_connection() or await self._connect(seconds)
        try:
            return await connection.ask(message, seconds)
        finally:
            if connection.is_open:
                connection.used_at = time.monotonic()
                self._idle.append(connection)

    def _idle_connection(self) -> LeanConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.used_at < IDLE_SECONDS_MAX and connection.is_open:
                return connection
            connection.close()
        return None

    async def _connect(self, seconds: float) -> LeanConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(min(seconds, self._settings.connect_timeout_seconds)):
                _, connection = await loop.create_connection(
                    LeanConnection, self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            raise NotSentError(f"{type(error).__name__}: {error}") from error
        return connection

    def _encoded(self, request: ApiRequest) -> bytes:
        body, kind = b"", ""
        if request.text is not None:
            body, kind = request.text.encode(), "text/plain"
        elif request.body is not None:
            body, kind = pydantic_core.to_json(request.body), "application/json"
        query = _query(tuple(request.query_pairs)) if request.query else ""
        head = f"{request.method} {self._base}{request.path}{query} HTTP/1.1\r\n{self._head}"
        if kind or request.method in {"POST", "PUT"}:
            head += f"Content-Type: {kind or 'application/json'}\r\nContent-Length: {len(body)}\r\n"
        return head.encode("ascii") + b"\r\n" + body


@lru_cache(maxsize=QUERIES_KEPT)
def _query(pairs: tuple[tuple[str, str], ...]) -> str:
    """A worker's polls ask the same few questions again and again."""
    return f"?{urlencode(pairs)}"


def _content(request: ApiRequest, address: str, answer: Answer) -> object:
    """Parsed JSON, text, or None for an empty answer."""
    if not answer.body:
        return None
    if not answer.is_json:
        return _text(answer)
    try:
        return _parsed(answer)
    except ValueError as error:
        failure = NoAnswerError(f"not JSON: {error}")
        raise world_error(request, address, failure) from failure


def _parsed(answer: Answer) -> object:
    """The fast parser first: it is strict, and Java writes half a character or deep data as is."""
    with suppress(ValueError):
        return pydantic_core.from_json(answer.body)
    parsed: object = json.loads(_text(answer))
    return parsed


def _text(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace")


def _tls(settings: ConductorSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file)
    if not settings.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.client_certificate is not None:
        context.load_cert_chain(settings.client_certificate, settings.client_key)
    return context
