"""Requests to one Conductor, with a key or without one, in the event loop of the caller.

Decides what an address may look like, how a request looks on the wire, when a token is asked for,
and that a request never outlives its caller. Says what a failure means for the ports; only here a
status becomes a meaning:

    failure              read                 write, poll
    not sent             UnavailableError     UnavailableError
    no trusted TLS       WrongServerError     WrongServerError
    no usable answer     UnavailableError     OutcomeUnknownError
    5xx, 408, 3xx        UnavailableError     OutcomeUnknownError (3xx: WrongServerError)
    429                  UnavailableError     UnavailableError
    401, 403             AccessDeniedError    AccessDeniedError
    404 of Conductor     MissingError         MissingError
    404 of a proxy etc.  WrongServerError     WrongServerError
    a page of HTML       WrongServerError     OutcomeUnknownError
    other 4xx            RequestRefusedError  RequestRefusedError
    no token             as a read            as a read: the write was never sent
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Literal, Protocol, TypeAlias, TypeVar, cast, final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import pydantic_core

from perago.adapters import http
from perago.adapters.http import HttpTerms
from perago.domain.lakefs import IMPOSSIBLE_NAMES
from perago.ports import errors
from perago.ports.telemetry import request_sent

# Reads and updates side by side. Polls are not counted: each waits at the server for seconds, and
# a heartbeat that queued behind them would arrive after its lease has ended. The bound is for a
# worker whose attempts all end together: not each of them opens a connection. With far fewer, the
# heartbeats of such a worker would queue where Conductor is slow.
CALLS_MAX = 16
TOKEN_HEADER = "X-Authorization"  # noqa: S105 - the header's name
Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
# Conductor's answer to a path that its API does not have; it looks like one to a missing thing.
NO_SUCH_PATH = "No static resource"
PATH_REMEDY = "the address must end in the API's path, usually /api"
_MEANINGS: Mapping[int, type[errors.ServiceError]] = {
    HTTPStatus.NOT_FOUND: errors.MissingError,
    HTTPStatus.TOO_MANY_REQUESTS: errors.UnavailableError,
}
# A stack trace of Java fills pages of a log. Conductor's own sentences are shorter, and a reason of
# an attempt has 500 characters for this and what surrounds it.
SHOWN_BODY_MAX = 300
_TITLE = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A method and a path below `/api`; `purpose` is how errors call it."""

    purpose: str
    method: Method
    path: str
    query: Mapping[str, str | int | bool | None] | None = None
    body: object = None
    text: str | None = None
    timeout_seconds: float | None = None
    is_poll: bool = False


class ApiClient(Protocol):
    """Sends requests and returns parsed JSON, text, or None for an empty answer.

    Raises only errors of `ports.errors`. A request never outlives the call that sent it:
    cancelling the call waits for the answer of a request that has left.
    """

    @property
    def address(self) -> str:
        """The address for messages, without credentials."""
        ...

    async def call(self, request: ApiRequest) -> object:
        """Send one request."""
        ...


def path_of(*parts: str) -> str:
    """A path below `/api` in which every part is quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class RefusedError(http.RequestFailedError):
    """The server answered with a status that is not 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class TokenError(http.RequestFailedError):
    """No token came, so the request that needs one was never sent."""

    def __init__(self, failure: http.RequestFailedError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class PageError(http.RequestFailedError):
    """A page of HTML arrived where an answer was expected."""


class NotConductorError(errors.WrongServerError):
    """Another server answered, for example with a landing page or a redirect."""


@dataclass(frozen=True, slots=True)
class ConductorSettings:
    """One Conductor and the terms on which this process talks to it."""

    url: str
    auth_key: str | None = None
    auth_secret: str | None = field(default=None, repr=False)
    http: HttpTerms = field(default_factory=HttpTerms)
    request_timeout_seconds: float = 15.0  # answers are short: after this a try counts as lost


def api_address(url: str) -> str:
    """The address without what breaks every request: blanks, a slash at the end, a query.

    A missing `/api` is not added: a gateway may serve the API elsewhere, so the server is asked.
    """
    # A slash in a password ends the host too early, and the port is then no number.
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    raise errors.WrongServerError(
        f"{url.rpartition('@')[2]!r} is no address of a Conductor API: expected"
        " http(s)://host:port/api, with a / in a password written as %2F;"
        " set PERAGO_CONDUCTOR to such an address"
    )


@final
class ConductorClient(ApiClient):
    """One Conductor and its token."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._settings = settings
        self._url = api_address(settings.url)
        self._http = http.HttpClient(settings.http)
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._token: str | None = None
        self._token_asked = asyncio.Lock()

    @property
    def address(self) -> str:
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    async def call(self, request: ApiRequest) -> object:
        try:
            if not IMPOSSIBLE_NAMES.isdisjoint(request.path.split("/")[1:]):
                # Sent, it would be the address of something else.
                raise RefusedError(HTTPStatus.NOT_FOUND, '{"message": "not found; not sent"}')
            request_sent()
            answer = await joined(self._with_token(request))
            _refuse(answer)
            return _content(answer)
        except http.RequestFailedError as failure:
            raise service_error(request, self.address, failure) from failure

    async def time(self) -> datetime | None:
        """What the clock of the server or proxy that answers says; that needs no key."""
        request = ApiRequest("ask for the time", "GET", "/version")
        try:
            return http.time_of((await self._send(request, None)).headers)
        except http.RequestFailedError as failure:
            raise service_error(request, self.address, failure) from failure

    async def close(self) -> None:
        """Close the connections of the running loop; no request is under way any more."""
        await self._http.close()

    async def _with_token(self, request: ApiRequest) -> http.Answer:
        """Send; a refused token is asked for again once, because tokens end after some time."""
        async with nullcontext() if request.is_poll else self._calls:
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
        out without one, as those of conductor-python do. What fails here is not the request that
        needs the token: that one has not left, or was refused with 401.
        """
        async with self._token_asked:
            if self._token is None or self._token == refused:
                key = {"keyId": self._settings.auth_key, "keySecret": self._settings.auth_secret}
                asking = ApiRequest("ask for a token", "POST", "/token", body=key)
                try:
                    answer = await self._send(asking, None)
                    if answer.status == HTTPStatus.NOT_FOUND:
                        return None
                    self._token = _token(answer)
                except http.RequestFailedError as failure:
                    raise TokenError(failure) from failure
            return self._token

    async def _send(self, request: ApiRequest, token: str | None) -> http.Answer:
        """Send once: an update that may have left is never sent again here."""
        headers = {"Accept": "application/json, text/plain"}
        body: bytes | None = None
        if request.text is not None:
            body, headers["Content-Type"] = request.text.encode(), "text/plain"
        elif request.method in {"POST", "PUT"}:
            headers["Content-Type"] = "application/json"  # Conductor answers 415 without one
        if request.body is not None:
            body = pydantic_core.to_json(request.body)
        if token is not None:
            headers[TOKEN_HEADER] = token
        query = urlencode(
            {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in (request.query or {}).items()
                if value is not None
            }
        )
        return await self._http.ask(
            request.method,
            f"{self._url}{request.path}{query and '?'}{query}",
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


def _refuse(answer: http.Answer) -> None:
    """Raise for an answer that is not 2xx."""
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise RefusedError(answer.status, _text(answer))


def _token(answer: http.Answer) -> str:
    """Return the token of an answer; anything else is a refusal of the key."""
    _refuse(answer)
    content: object = None
    with suppress(ValueError):
        content = pydantic_core.from_json(answer.body)
    match content:
        case {"token": str(token)} if token:
            return token
        case _:
            raise http.NoAnswerError("expected a token in the answer to POST /token, found none")


def _content(answer: http.Answer) -> object:
    """Return parsed JSON, text, or None for an empty answer."""
    # After the status: the 502 page of a balancer is HTML as well, and says that Conductor is
    # away, not that the address is wrong.
    if answer.body.lstrip().startswith(b"<"):
        raise PageError
    if not answer.body:
        return None
    if "json" not in answer.headers.get("content-type", ""):
        return _text(answer)
    # The fast parser first: it is strict, and Java writes half a character or deep data.
    with suppress(ValueError):
        return pydantic_core.from_json(answer.body)
    try:
        return cast("object", json.loads(_text(answer)))
    except ValueError as error:
        raise http.NoAnswerError(f"not JSON: {error}") from error


def _text(answer: http.Answer) -> str:
    return answer.body.decode("utf-8", "replace")


def service_error(
    request: ApiRequest, address: str, failure: http.RequestFailedError
) -> errors.ServiceError:
    """The port's error for a failed request."""
    where = f"{request.purpose} at {address}"
    match failure:
        case TokenError(failure=of_token):
            asking = ApiRequest(f"{request.purpose}: not sent: ask for a token", "GET", "/token")
            return service_error(asking, address, of_token)
        case RefusedError():
            return _refusal(request, where, failure)
        case http.NotTrustedError():
            return errors.WrongServerError(f"{where}: not sent: {failure}")
        case http.NotSentError():
            return errors.UnavailableError(f"{where}: not sent: {failure}")
        case PageError():
            message = f"{where}: a page of HTML answered; {PATH_REMEDY}"
            return _lost(request, message, NotConductorError)
        case _:
            return _lost(request, f"{where}: no usable answer: {failure}")


def _refusal(request: ApiRequest, where: str, refusal: RefusedError) -> errors.ServiceError:
    status, said = refusal.status, _conductor_message(refusal.body)
    title = _TITLE.search(refusal.body)
    shown = said or " ".join((title[1] if title else refusal.body).split())
    shown = shown if len(shown) <= SHOWN_BODY_MAX else f"{shown[:SHOWN_BODY_MAX]}..."
    message = f"{where}: {status} {shown}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        keys = "CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET"
        return errors.AccessDeniedError(f"{message}; check {keys} and what they may do")
    if status == HTTPStatus.NOT_FOUND and said is None:
        # A gateway that routes elsewhere must not look like a task that is gone.
        return NotConductorError(f"{message}; this 404 is not Conductor's: {PATH_REMEDY}")
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _lost(request, message)
    if status < HTTPStatus.BAD_REQUEST:
        return NotConductorError(message)
    return _MEANINGS.get(status, errors.RequestRefusedError)(message)


def _lost(
    request: ApiRequest,
    message: str,
    of_a_read: type[errors.UnavailableError] = errors.UnavailableError,
) -> errors.ServiceError:
    """A write may have taken effect; a read can be asked again.

    A poll is a GET that writes: it hands rows out, and those of a lost answer wait for their
    response time-out. So it is no read that found nothing.
    """
    is_read = request.method == "GET" and not request.is_poll
    return of_a_read(message) if is_read else errors.OutcomeUnknownError(message)


def _conductor_message(body: str) -> str | None:
    """What Conductor says; None when the answer is of another server.

    Spring's own error page has `error` and `path`, Conductor's answers have neither; and a path
    that is not in its API, such as `/api/api/tasks`, gets its form but Spring's words.
    """
    try:
        answer: object = json.loads(body)
    except ValueError:
        return None
    fields = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    if "message" not in fields or "path" in fields:
        return None
    said, details = str(fields["message"]), fields.get("validationErrors")
    if said.startswith(NO_SUCH_PATH):
        return None
    return f"{said} {json.dumps(details)}" if details else said
