"""One lakeFS: requests to its API and its block store, bounded together, their failures told apart.

They run on a loop of the client's own in a thread: a caller may have any loop or come from a fork,
and a hundred downloads never delay its heartbeats. What is asked is the users' decision.
"""

import asyncio
import atexit
import base64
import json
import os
import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
)
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import ParamSpec, TypeVar, final
from urllib.parse import quote, urlencode, urljoin

from perago.adapters.http import (
    NO_HEADERS,
    PIECE_BYTES,
    Headers,
    HttpClient,
    LoopThread,
    NoAnswerError,
    NotSentError,
    NotTrustedError,
    Outgoing,
    Reply,
)
from perago.adapters.lakefs.configuration import (
    LakeFSAddressError,
    LakeFSConfiguration,
    api_address,
)
from perago.adapters.lakefs.errors import (
    FIRST_REFUSAL,
    Failure,
    Lost,
    NotSent,
    Operation,
    Refused,
    port_error,
    read_refusal,
    shortened,
)
from perago.adapters.lakefs.object_files import LeavingFile
from perago.adapters.lakefs.retry import (
    asked_for_seconds,
    is_worth_repeating,
    pause_before_repeating,
)
from perago.domain.logical_execution import IMPOSSIBLE_NAMES
from perago.ports.errors import LocalDiskError, UnavailableError
from perago.ports.telemetry import request_sent

Asked = ParamSpec("Asked")
Result = TypeVar("Result")

# MD5 digests 0.6 GB a second and releases the interpreter meanwhile, so more threads than this
# wait for the disk or the interpreter, and not for a processor.
HANDS_MAX = 8
# Smaller reads and writes are done in the loop: handing them to a thread costs as much as they do.
INLINE_BYTES_MAX = 64 * 1024
CLOSE_SECONDS = 2.0
JSON_BYTES_MAX = 16 * 1024 * 1024
_ERROR_BYTES_MAX = 64 * 1024
_SUCCESS = range(200, 300)
_FOLLOWED = frozenset({301, 302, 307, 308})
_REDIRECTS_MAX = 3


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to the API; the path is kinds and names by turns, unquoted."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    content: object = None
    seconds: float | None = None


def at_branch(repository: str, branch: str, *below: str) -> tuple[str, ...]:
    """The path of a branch, or of what is below it."""
    return ("repositories", repository, "branches", branch, *below)


def at_ref(repository: str, ref: str, *below: str) -> tuple[str, ...]:
    """The path of what is below a branch, a tag or a commit that is only read."""
    return ("repositories", repository, "refs", ref, *below)


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
class FileBody:
    """A stretch of a file, read as it is sent; `error` is what the machine refused meanwhile."""

    def __init__(
        self, client: "LakeFSClient", file: LeavingFile, start: int, length: int, *around: bytes
    ) -> None:
        self._client = client
        self._file = file
        self._start = start
        self._end = start + length
        self._before, self._behind = around or (b"", b"")
        self.error: LocalDiskError | UnavailableError | None = None

    def outgoing(self) -> Outgoing:
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
                    piece = await self._client.by_hand(self._file.read, offset, length)
            except (LocalDiskError, UnavailableError) as error:
                self.error = error  # the library would make a lost request of it
                raise
            yield piece
        if self._behind:
            yield self._behind


@final
class LakeFSClient:
    """Asks one lakeFS installation; shared by all its ports, closed by whoever made it.

    `ask`, `attempt`, `run` and `check` are for any loop; the rest is for work that `run` was given.
    """

    def __init__(self, configuration: LakeFSConfiguration) -> None:
        self.configuration = configuration
        self.address = api_address(configuration.endpoint_url)
        pair = f"{configuration.access_key_id}:{configuration.secret_access_key}"
        self._credentials = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        # Kept in a fork: collected there, its connections would leave the selector that the parent
        # still uses.
        self._http = HttpClient(configuration.http)
        self._dice = random.Random()  # noqa: S311 - for pauses, not for secrets
        self._lock = Lock()
        self._is_closed = False
        self._process = 0

    async def ask(
        self, operation: Operation, request: ApiRequest, read: Callable[[bytes], Result]
    ) -> Result:
        """Send one short request and read its answer; a failure is raised as a port error."""
        answer = await self.attempt(request, read)
        if isinstance(answer, Lost) and answer.broken and not operation.writes:
            # A kept connection that its other end had closed: reading again changes nothing.
            answer = await self.attempt(request, read)
        if isinstance(answer, Refused | Lost | NotSent):
            raise port_error(operation, answer)
        return answer

    async def attempt(
        self, request: ApiRequest, read: Callable[[bytes], Result]
    ) -> Result | Failure:
        """Send one short request whose failure the caller turns into an answer of its own."""

        async def once() -> Result | Failure:
            try:
                async with self._slots:
                    return await self.send(request, read)
            except FailedRequestError as error:
                return error.failure

        request_sent()
        return await self.run(once())

    async def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Do work in the client's loop."""
        try:
            self._open()
        except UnavailableError:
            work.close()
            raise
        try:
            return await self._loop.run(work)
        except NotSentError as error:
            raise UnavailableError(f"nothing was sent: {error}; try again") from error

    async def check(self) -> None:
        """Ask for the configuration: the address, the certificate and the credentials at once."""
        found = await self.attempt(ApiRequest("GET", ("config",)), bytes)
        endpoint = self.configuration.endpoint_url
        match found:
            case Lost(text, foreign=True):
                raise LakeFSAddressError(endpoint, text)
            case Refused(status) if status < FIRST_REFUSAL:
                raise LakeFSAddressError(endpoint, "it redirects")
            case Refused() | Lost() | NotSent():
                raise port_error(Operation("ask for the configuration of", self.address), found)
            case bytes():
                with suppress(ValueError):
                    if "storage_config" in json.loads(found):
                        return
                page = found[:60].decode("utf-8", "replace").strip()
                raise LakeFSAddressError(
                    endpoint, f"it answers {page!r} instead of a configuration"
                )

    def close(self) -> None:
        """Close the connections and let the threads go; what is under way is lost."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, 0
        if process != os.getpid():
            return
        atexit.unregister(self.close)
        with suppress(TimeoutError):
            self._loop.submit(self._http.close()).result(CLOSE_SECONDS)
        self._loop.close()
        self._hands.shutdown(wait=False)

    def _open(self) -> None:
        """Make what one process needs, when it is first needed; a fork needs its own."""
        with self._lock:
            if self._is_closed:
                text = f"lakeFS at {self.address}: the client is closed, nothing was sent"
                raise UnavailableError(text)
            if self._process == os.getpid():
                return
            self._process = os.getpid()
            self._loop = LoopThread("perago-lakefs-loop")
            self._hands = ThreadPoolExecutor(HANDS_MAX, thread_name_prefix="perago-lakefs")
            self._slots = asyncio.Semaphore(self.configuration.requests_concurrent_max)
            atexit.register(self.close)  # sessions that are not closed complain at the end

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
                    self.configuration.retry,
                    failures=failures,
                    seconds_since_first=loop.time() - first,
                    asked_for=error.asked_for,
                    chance=self._dice.random(),
                )
                if pause is None or error.is_final:
                    raise port_error(operation, error.failure) from error
            await asyncio.sleep(pause)

    async def send(self, request: ApiRequest, read: Callable[[bytes], Result]) -> Result:
        """Send one short request once; gives what `read` makes of the answer's body."""
        headers, body = self._credentials, None
        if request.content is not None:
            headers = {**headers, "Content-Type": "application/json"}
            body = json.dumps(request.content).encode()
        url = self._url(request)
        seconds = request.seconds or self.configuration.answer_seconds
        with _told_apart():
            answer = await self._http.ask(
                request.method, url, seconds=seconds, headers=headers, body=body
            )
        if answer.status not in _SUCCESS:
            text = answer.body[:_ERROR_BYTES_MAX].decode("utf-8", "replace")
            raise FailedRequestError(read_refusal(answer.status, text), answer.headers)
        return read_answer(answer.body, read)

    @asynccontextmanager
    async def exchange(
        self, request: ApiRequest, headers: Headers = NO_HEADERS, body: FileBody | None = None
    ) -> AsyncGenerator[Reply]:
        """Send one request to the API and hand out its successful answer as it arrives."""
        url = self._url(request)
        with _told_apart(body):
            async with self._http.exchange(
                request.method,
                url,
                silence_seconds=self.configuration.answer_seconds,
                headers={**self._credentials, **headers},
                body=None if body is None else body.outgoing(),
            ) as reply:
                if reply.status not in _SUCCESS:
                    refusal = read_refusal(reply.status, await _error_text(reply))
                    raise FailedRequestError(refusal, reply.headers)
                yield reply

    @asynccontextmanager
    async def stored(
        self, method: str, url: str, headers: Headers, body: FileBody | None = None
    ) -> AsyncGenerator[Reply]:
        """Send one request to the block store, which may redirect to another region of its own.

        It speaks XML and knows no lakeFS, so a refusal is taken by its status alone.
        """
        for _ in range(_REDIRECTS_MAX):
            with _told_apart(body):
                async with self._http.exchange(
                    method,
                    url,
                    silence_seconds=self.configuration.answer_seconds,
                    headers=headers,
                    body=None if body is None else body.outgoing(),
                ) as reply:
                    if reply.status in _FOLLOWED and "location" in reply.headers:
                        url = urljoin(url, reply.headers["location"])
                        continue
                    if reply.status not in _SUCCESS:
                        text = f"the block store says {shortened(await _error_text(reply))}"
                        raise FailedRequestError(Refused(reply.status, text), reply.headers)
                    yield reply
                    return
        raise FailedRequestError(Lost("the block store redirects without end"), is_final=True)

    def _url(self, request: ApiRequest) -> str:
        """The address of a request; for a name that nothing can have, lakeFS's own answer.

        A server that cleans paths takes `..` out, and the rest is the address of something else.
        """
        for kind, name in zip(request.path[::2], request.path[1::2], strict=False):
            if name in IMPOSSIBLE_NAMES:
                found = {"repositories": "repository", "branches": "branch"}.get(kind, "reference")
                raise FailedRequestError(Refused(404, f"{found} not found"))
        path = "/".join(quote(segment, safe="") for segment in request.path)
        return f"{self.address}/{path}?{urlencode(request.query, quote_via=quote, safe='')}"


def read_answer(body: bytes, read: Callable[[bytes], Result]) -> Result:
    """Read a successful answer; one that its reader cannot read is no answer."""
    try:
        return read(body)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        text = shortened(f"unusable answer: {type(error).__name__}: {error}")
        raise FailedRequestError(Lost(text)) from error


@contextmanager
def _told_apart(body: FileBody | None = None) -> Generator[None]:
    """Raise FailedRequestError for a request without a usable answer."""
    try:
        yield
    except NotSentError as error:
        final_one = isinstance(error, NotTrustedError)
        raise FailedRequestError(NotSent(shortened(str(error))), is_final=final_one) from error
    except NoAnswerError as error:
        if body is not None and body.error is not None:
            raise body.error from None
        broken = not isinstance(error.__cause__, TimeoutError)
        raise FailedRequestError(Lost(shortened(str(error)), broken=broken)) from error


async def _error_text(reply: Reply) -> str:
    """The beginning of a refusal's body."""
    body = bytearray()
    async for piece in reply.pieces():
        body += piece
        if len(body) > _ERROR_BYTES_MAX:
            break
    return body[:_ERROR_BYTES_MAX].decode("utf-8", "replace") or f"status {reply.status}"
