"""Requests that move the bytes of objects: bounded together, repeated, their failures told apart.

One value for each process. Knows addresses and answers; what is asked is its users' decision.
"""

import asyncio
import base64
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import NOT_FOUND
from typing import Any, ParamSpec, TypeVar, cast, final
from urllib.parse import quote, urlencode, urljoin

from perago.adapters.http import (
    NO_HEADERS,
    PIECE_BYTES,
    Headers,
    HttpClient,
    HttpTerms,
    NoAnswerError,
    NotSentError,
    NotTrustedError,
    Outgoing,
    Reply,
)
from perago.adapters.lakefs.address import api_address
from perago.adapters.lakefs.error_mapping import Operation, port_error
from perago.adapters.lakefs.exchange import (
    Failure,
    Lost,
    NotSent,
    Refused,
    read_refusal,
    shortened,
)
from perago.adapters.lakefs.object_files import LeavingFile
from perago.adapters.lakefs.retry import (
    RetryTerms,
    asked_for_seconds,
    is_worth_repeating,
    pause_before_repeating,
)
from perago.domain.logical_execution import IMPOSSIBLE_NAMES
from perago.ports.errors import LocalDiskError, UnavailableError

Asked = ParamSpec("Asked")
Result = TypeVar("Result")

REQUESTS_CONCURRENT_MAX = 48
JSON_BYTES_MAX = 16 * 1024 * 1024
_ERROR_BYTES_MAX = 64 * 1024
_SUCCESS = range(200, 300)
_FOLLOWED = frozenset({301, 302, 307, 308})
_REDIRECTS_MAX = 3
# Smaller reads and writes are done in the loop: handing them to a thread costs as much as they do.
INLINE_BYTES_MAX = 64 * 1024


class RouteChoice(StrEnum):
    """Which way object bytes take; `auto` asks the server what it can do."""

    AUTO = "auto"
    API = "api"
    PRESIGNED = "presigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferConfiguration:
    """How the bytes of objects move from and to one lakeFS installation.

    `requests_concurrent_max` bounds all attempts of this process together.
    """

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    http: HttpTerms = field(default_factory=HttpTerms)
    route: RouteChoice = RouteChoice.AUTO
    # A signed address costs a request of its own, so it pays for larger objects only.
    presigned_bytes_min: int = 4 * 1024 * 1024
    requests_concurrent_max: int = REQUESTS_CONCURRENT_MAX
    silence_seconds: float = 60.0
    retry: RetryTerms = field(default_factory=RetryTerms)


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, and one of its branches or commits."""

    repository: str
    ref: str

    def objects(self, kind: str) -> str:
        """The path of the objects of this branch (`branches`) or reference (`refs`)."""
        repository, ref = quote(self.repository, safe=""), quote(self.ref, safe="")
        return f"/repositories/{repository}/{kind}/{ref}/objects"

    def require(self, operation: Operation) -> None:
        """Answer as lakeFS does for what is missing, instead of sending an impossible name.

        A server that cleans paths takes `..` out, and the rest is the address of something else.
        """
        if self.repository in IMPOSSIBLE_NAMES:
            raise port_error(operation, Refused(NOT_FOUND, "repository not found"))
        if self.ref in IMPOSSIBLE_NAMES:
            raise port_error(operation, Refused(NOT_FOUND, "reference not found"))


class FailedRequestError(Exception):
    """One attempt at a request failed."""

    def __init__(
        self, failure: Failure, headers: Headers = NO_HEADERS, *, is_final: bool = False
    ) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.asked_for = asked_for_seconds(headers)
        self.is_final = is_final or not is_worth_repeating(failure)


@final
class ObjectRequests:
    """Sends requests to the API of one lakeFS and to its block store."""

    def __init__(
        self, configuration: TransferConfiguration, client: HttpClient, hands: ThreadPoolExecutor
    ) -> None:
        self._address = api_address(configuration.endpoint_url)
        pair = f"{configuration.access_key_id}:{configuration.secret_access_key}"
        self.credentials = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        self._silence_seconds = configuration.silence_seconds
        self._retry = configuration.retry
        self._client = client
        self._hands = hands
        self._slots = asyncio.Semaphore(configuration.requests_concurrent_max)
        self._dice = random.Random()  # noqa: S311 - for pauses, not for secrets

    def url(self, path: str, query: Mapping[str, str]) -> str:
        """An address of the API."""
        return f"{self._address}{path}?{urlencode(query, quote_via=quote, safe='')}"

    async def by_hand(
        self, work: Callable[Asked, Result], *given: Asked.args, **named: Asked.kwargs
    ) -> Result:
        """Do what blocks or calculates beside the loop."""
        refused = False

        def do() -> Result:
            if refused:
                raise CancelledError
            return work(*given, **named)

        try:
            doing = asyncio.get_running_loop().run_in_executor(self._hands, do)
        except RuntimeError as error:
            refused = True  # it stays in the queue, and the next thread would do it after all
            raise UnavailableError(f"no thread can be started: {error}; try again") from error
        return await doing

    async def repeat(
        self, operation: Operation, attempt: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Try until it succeeds, is refused, or the time for it is over; raises the port's error.

        An attempt holds one of the slots that all transfers of this process share; a pause does
        not.
        """
        loop = asyncio.get_running_loop()
        failures, first = 0, 0.0
        while True:
            try:
                async with self._slots:
                    return await attempt()
            except FailedRequestError as error:
                failures += 1
                first = first if failures > 1 else loop.time()
                pause = pause_before_repeating(
                    self._retry,
                    failures=failures,
                    seconds_since_first=loop.time() - first,
                    asked_for=error.asked_for,
                    chance=self._dice.random(),
                )
                if pause is None or error.is_final:
                    raise port_error(operation, error.failure) from error
            await asyncio.sleep(pause)

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: Mapping[str, object] | None = None,
        *,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """One request to the API with JSON on both sides; an empty answer is an empty object."""
        headers = {**self.credentials, "Content-Type": "application/json"}
        body = None if content is None else json.dumps(content).encode()
        url = self.url(path, query)
        with _told_apart():
            answer = await self._client.ask(
                method,
                url,
                seconds=seconds or self._silence_seconds,
                headers=headers,
                body=body,
                size_max=JSON_BYTES_MAX,
            )
        if answer.status not in _SUCCESS:
            text = answer.body[:_ERROR_BYTES_MAX].decode("utf-8", "replace")
            raise FailedRequestError(read_refusal(answer.status, text), answer.headers)
        return self.document(answer.body or b"{}")

    def document(self, body: bytes) -> dict[str, Any]:
        """The JSON object of a successful answer."""
        try:
            found: object = json.loads(body)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
        text = f"an answer that is no JSON object: {shortened(body[:200].decode(errors='replace'))}"
        raise FailedRequestError(Lost(text, foreign=True))

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: Callable[[], Outgoing] | None = None,
    ) -> AsyncGenerator[Reply]:
        """One request to the API and its successful answer as it arrives."""
        with _told_apart():
            async with self._exchange(method, url, headers, body) as reply:
                if reply.status not in _SUCCESS:
                    raise FailedRequestError(
                        read_refusal(reply.status, await _error_text(reply)), reply.headers
                    )
                yield reply

    @asynccontextmanager
    async def stored(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: Callable[[], Outgoing] | None = None,
    ) -> AsyncGenerator[Reply]:
        """One request to the block store, which may redirect to another region of its own.

        It speaks XML and knows no lakeFS, so a refusal is taken by its status alone.
        """
        for _ in range(_REDIRECTS_MAX):
            with _told_apart():
                async with self._exchange(method, url, headers, body) as reply:
                    if reply.status in _FOLLOWED and "location" in reply.headers:
                        url = urljoin(url, reply.headers["location"])
                        continue
                    if reply.status not in _SUCCESS:
                        text = f"the block store says {shortened(await _error_text(reply))}"
                        raise FailedRequestError(Refused(reply.status, text), reply.headers)
                    yield reply
                    return
        raise FailedRequestError(Lost("the block store redirects without end"), is_final=True)

    def outgoing(self, file: LeavingFile, start: int, length: int, *around: bytes) -> "FileBody":
        """A stretch of a file as a body, with what stands before and behind it."""
        return FileBody(self, file, start, length, *around)

    def _exchange(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: Callable[[], Outgoing] | None,
    ) -> AbstractAsyncContextManager[Reply]:
        """Send on this installation's terms; each try begins its body anew."""
        return self._client.exchange(
            method,
            url,
            silence_seconds=self._silence_seconds,
            headers=headers,
            body=None if body is None else body(),
        )


@final
class FileBody:
    """A stretch of a file, read as it is sent; `error` is what the machine refused meanwhile."""

    def __init__(
        self,
        requests: ObjectRequests,
        file: LeavingFile,
        start: int,
        length: int,
        before: bytes = b"",
        behind: bytes = b"",
    ) -> None:
        self._requests = requests
        self._file = file
        self._start = start
        self._end = start + length
        self._before = before
        self._behind = behind
        self.error: LocalDiskError | UnavailableError | None = None

    def __call__(self) -> Outgoing:
        """The body of one attempt."""
        length = len(self._before) + self._end - self._start + len(self._behind)
        return Outgoing(self._pieces(), length)

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._before:
            yield self._before
        for offset in range(self._start, self._end, PIECE_BYTES):
            length = min(PIECE_BYTES, self._end - offset)
            try:
                if self._end - self._start <= INLINE_BYTES_MAX:
                    piece = self._file.read(offset, length)
                else:
                    piece = await self._requests.by_hand(self._file.read, offset, length)
            except (LocalDiskError, UnavailableError) as error:
                self.error = error  # the library would make a lost request of it
                raise
            yield piece
        if self._behind:
            yield self._behind


class _told_apart:  # noqa: N801 - it reads as a statement
    """Raise FailedRequestError for a request without a usable answer."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        match error:
            case NotTrustedError():
                raise FailedRequestError(NotSent(str(error)), is_final=True) from error
            case NotSentError():
                raise FailedRequestError(NotSent(str(error))) from error
            case NoAnswerError():
                raise FailedRequestError(Lost(str(error), broken=True)) from error
            case _:
                return


async def _error_text(reply: Reply) -> str:
    """The beginning of a refusal's body."""
    body = bytearray()
    async for piece in reply.pieces():
        body += piece
        if len(body) > _ERROR_BYTES_MAX:
            break
    return body[:_ERROR_BYTES_MAX].decode("utf-8", "replace") or f"status {reply.status}"
