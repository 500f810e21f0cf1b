"""Requests to one Conductor, with a key or without one, in the event loop of the caller.

Decides how a request looks on the wire, when a token is asked for, and that a request never
outlives its caller. Must not know what a request means.
"""

import asyncio
import json
from collections.abc import Awaitable
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar, cast, final
from urllib.parse import urlencode

import pydantic_core

from perago.adapters.conductor.api_request import ApiClient, ApiRequest, RefusedError
from perago.adapters.conductor.connection_settings import (
    ConductorSettings,
    api_address,
    shown_address,
)
from perago.adapters.conductor.error_mapping import landing_page, world_error
from perago.adapters.http import Answer, HttpClient, HttpTerms, NoAnswerError, RequestFailedError
from perago.domain.logical_execution import IMPOSSIBLE_NAMES
from perago.ports.telemetry import request_sent

# Reads and updates side by side. Polls are not counted: each waits at the server for seconds, and
# a heartbeat that queued behind them would arrive after its lease has ended.
CALLS_MAX = 16
TOKEN_HEADER = "X-Authorization"  # noqa: S105 - the header's name
Value = TypeVar("Value")


@final
class ConductorClient(ApiClient):
    """One Conductor and its token."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._settings = settings
        self._url = api_address(settings.url)
        self._http = HttpClient(
            HttpTerms(
                ca_file=settings.ca_file,
                verify_tls=settings.verify_tls,
                proxy_of=settings.proxy_of,
                connect_seconds=settings.connect_timeout_seconds,
            )
        )
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._token: str | None = None
        self._token_asked = asyncio.Lock()

    @property
    def address(self) -> str:
        return shown_address(self._url)

    async def call(self, request: ApiRequest) -> object:
        if not IMPOSSIBLE_NAMES.isdisjoint(request.path.split("/")[1:]):
            # Sent, it would be the address of something else.
            refusal = RefusedError(HTTPStatus.NOT_FOUND, '{"message": "not found; not sent"}')
            raise world_error(request, self.address, refusal)
        request_sent()
        try:
            answer = await joined(self._answer(request))
        except RequestFailedError as failure:
            raise world_error(request, self.address, failure) from failure
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            # The status comes first: the 502 page of a balancer is HTML as well, and says that
            # Conductor is away, not that the address is wrong.
            refusal = RefusedError(answer.status, _text(answer))
            raise world_error(request, self.address, refusal) from refusal
        if answer.body.lstrip().startswith(b"<"):
            raise landing_page(request, self.address)
        return _content(request, self.address, answer)

    async def close(self) -> None:
        """Close the connections of the running loop; no request is under way any more."""
        await self._http.close()

    async def _answer(self, request: ApiRequest) -> Answer:
        if request.is_poll:
            return await self._with_token(request)
        async with self._calls:
            return await self._with_token(request)

    async def _with_token(self, request: ApiRequest) -> Answer:
        """Send; a refused token is asked for again once, because tokens end after some time."""
        if self._settings.auth_key is None:
            return await self._send(request, None)
        token = await self._current_token(refused=None)
        answer = await self._send(request, token)
        if answer.status == HTTPStatus.UNAUTHORIZED and token is not None:
            answer = await self._send(request, await self._current_token(refused=token))
        return answer

    async def _current_token(self, refused: str | None) -> str | None:
        """Return a token other than the refused one; requests that wait for it ask once.

        A server without tokens answers 404 (Conductor without access control): requests then go
        out without one, as those of conductor-python do.
        """
        async with self._token_asked:
            if self._token is None or self._token == refused:
                key = {"keyId": self._settings.auth_key, "keySecret": self._settings.auth_secret}
                answer = await self._send(ApiRequest("ask for a token", "POST", "/token", body=key))
                if answer.status == HTTPStatus.NOT_FOUND:
                    return None
                self._token = _token(answer)
            return self._token

    async def _send(self, request: ApiRequest, token: str | None = None) -> Answer:
        """Send once: an update that may have left is never sent again here."""
        headers = {"Accept": "application/json, text/plain"}
        body: bytes | None = None
        if request.text is not None:
            body, headers["Content-Type"] = request.text.encode(), "text/plain"
        elif request.body is not None:
            body, headers["Content-Type"] = pydantic_core.to_json(request.body), "application/json"
        elif request.method in {"POST", "PUT"}:
            headers["Content-Type"] = "application/json"  # Conductor answers 415 without one
        if token is not None:
            headers[TOKEN_HEADER] = token
        query = f"?{urlencode(request.query_pairs)}" if request.query_pairs else ""
        return await self._http.ask(
            request.method,
            f"{self._url}{request.path}{query}",
            headers=headers,
            body=body,
            seconds=request.timeout_seconds or self._settings.request_timeout_seconds,
        )


async def joined(sending: Awaitable[Value]) -> Value:
    """Wait for a request, also when the caller is cancelled: it must not outlive its caller.

    A heartbeat that arrives after a terminal update can undo that update on the server.
    """
    sent = asyncio.ensure_future(sending)
    try:
        return await asyncio.shield(sent)
    except asyncio.CancelledError:
        while not sent.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([sent])
        if not sent.cancelled():
            sent.exception()  # read, so that asyncio does not report it as forgotten
        raise


def _token(answer: Answer) -> str:
    """Return the token of an answer; anything else is a refusal of the key."""
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise RefusedError(answer.status, _text(answer))
    with suppress(ValueError):
        content = cast("object", pydantic_core.from_json(answer.body))
        if isinstance(content, dict):
            token = cast("dict[str, object]", content).get("token")
            if isinstance(token, str) and token:
                return token
    raise NoAnswerError("expected a token in the answer to POST /token, found none")


def _content(request: ApiRequest, address: str, answer: Answer) -> object:
    """Return parsed JSON, text, or None for an empty answer."""
    if not answer.body:
        return None
    if "json" not in answer.headers.get("content-type", ""):
        return _text(answer)
    try:
        return _parsed(answer)
    except ValueError as error:
        failure = NoAnswerError(f"not JSON: {error}")
        raise world_error(request, address, failure) from failure


def _parsed(answer: Answer) -> object:
    """Try the fast parser first: it is strict, and Java writes half a character or deep data."""
    with suppress(ValueError):
        return pydantic_core.from_json(answer.body)
    parsed: object = json.loads(_text(answer))
    return parsed


def _text(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace")
