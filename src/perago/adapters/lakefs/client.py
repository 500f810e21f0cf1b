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
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, TypeVar, final
from urllib.parse import quote, urlencode, urljoin

from perago.adapters import http
from perago.adapters.lakefs import answers
from perago.adapters.lakefs.answers import Failure, Lost, NotSent, Operation, Refused, shortened
from perago.adapters.lakefs.configuration import LakeFSConfiguration, api_address
from perago.domain.lakefs import IMPOSSIBLE_NAMES
from perago.ports.asking import Repetitions, heard_by, hearing
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.ports.telemetry import request_sent

Asked = ParamSpec("Asked")
Given = TypeVar("Given")
Result = TypeVar("Result")

# MD5 digests 0.6 GB a second and releases the interpreter meanwhile, so more threads than this
# wait for the disk or the interpreter, and not for a processor.
HANDS_MAX = 8
# Short questions at once. They do not wait for the slots of transfers: with few of those, a merge
# would wait for other attempts' gigabytes, and its lease would end. As many as transfers have by
# default (REQUESTS_CONCURRENT_MAX): each is a connection that the server keeps.
QUESTIONS_MAX = 48
# One object as JSON has some hundred bytes, an error a sentence. The bounds only keep a proxy that
# answers without end from filling the memory.
JSON_BYTES_MAX = 16 * 1024 * 1024
_ERROR_BYTES_MAX = 1024 * 1024
_SUCCESS = range(200, 300)
_FOLLOWED = frozenset({301, 302, 307, 308})  # not 303, which would turn a PUT into a GET
_EXCHANGES_MAX = 3  # the address itself and two redirects: a bucket lives in one region


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request; the path in the API is kinds and names by turns, unquoted."""

    method: str
    path: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    content: object = None
    headers: http.Headers = field(default_factory=dict[str, str])
    seconds: float | None = None
    signed_url: str = ""  # instead of a path: an address of the block store


def at_branch(repository: str, branch: str, *below: str) -> tuple[str, ...]:
    """The path of a branch, or of what is below it."""
    return ("repositories", repository, "branches", branch, *below)


def at_ref(repository: str, ref: str, *below: str) -> tuple[str, ...]:
    """The path of what is below a branch, a tag or a commit that is only read."""
    return ("repositories", repository, "refs", ref, *below)


class FailedRequestError(Exception):
    """One attempt at a request failed."""

    def __init__(
        self, failure: Failure, headers: http.Headers = http.NO_HEADERS, *, is_final: bool = False
    ) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.asked_for = answers.asked_for_seconds(headers)
        self.is_final = is_final or not answers.is_worth_repeating(failure)


@final
class LakeFSClient:
    """Asks one lakeFS installation; shared by all its ports, closed by the code that made it.

    `ask`, `attempt` and `run` are for any loop; the rest is for work that `run` was given.
    """

    def __init__(self, configuration: LakeFSConfiguration) -> None:
        self.configuration = configuration
        self.address = api_address(configuration.endpoint_url)
        pair = f"{configuration.access_key_id}:{configuration.secret_access_key}"
        self._credentials = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        # Kept in a fork: collected there, its connections would leave the selector that the parent
        # still uses.
        self._http = http.HttpClient(configuration.http)
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
        if isinstance(answer, Failure):
            raise answers.port_error(operation, answer)
        return answer

    async def attempt(
        self, request: ApiRequest, read: Callable[[bytes], Result]
    ) -> Result | Failure:
        """Send one short request whose failure the caller turns into an answer of its own."""

        async def once() -> Result | Failure:
            try:
                async with self._questions:
                    return await self.send(request, read)
            except FailedRequestError as error:
                return error.failure

        request_sent()
        return await self.run(once())

    async def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Do work in the client's loop."""
        try:
            self._open()
            with heard_by(_heard_from_a_thread()):
                return await self._loop.run(work)
        except http.NotSentError as error:  # it has not begun
            work.close()
            raise UnavailableError(f"{error}, so nothing was sent; try again") from error
        except http.NoAnswerError as error:
            raise OutcomeUnknownError(f"lakeFS at {self.address}: {error}") from error

    def close(self) -> None:
        """Close the connections and let the threads go; what is under way is an unknown outcome."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, 0
        if process != os.getpid():
            return
        atexit.unregister(self.close)
        self._loop.close(self._http.close())
        self._hands.shutdown(wait=False)

    def _open(self) -> None:
        """Make what one process needs, when it is first needed; a fork needs its own."""
        with self._lock:
            if self._is_closed:
                raise http.NotSentError(f"lakeFS at {self.address}: the client is closed")
            if self._process == os.getpid():
                return
            # First: where no thread can be started, the next request tries again.
            self._loop = http.LoopThread("perago-lakefs-loop")
            self._process = os.getpid()
            self._hands = ThreadPoolExecutor(HANDS_MAX, thread_name_prefix="perago-lakefs")
            self._slots = asyncio.Semaphore(self.configuration.requests_concurrent_max)
            self._questions = asyncio.Semaphore(QUESTIONS_MAX)
            # With inherited dice, workers that were forked together would come back together.
            self._dice = random.Random()  # noqa: S311 - for pauses, not for secrets
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
        not. The caller that waits is told of each failure.
        """
        loop = asyncio.get_running_loop()
        failures, first = 0, 0.0
        lost: Failure | None = None
        request, hears = object(), None  # asked for on a failure only: almost no request fails
        try:
            while True:
                try:
                    async with self._slots:
                        return await attempt()
                except FailedRequestError as error:
                    failure = error.failure
                    failures += 1
                    if operation.writes and lost is None and answers.is_unknown(failure):
                        lost = failure
                    first = first if failures > 1 else loop.time()
                    pause = self.configuration.retry.pause_before(
                        failures=failures,
                        seconds_since_first=loop.time() - first,
                        asked_for=error.asked_for,
                        chance=self._dice.random(),
                    )
                    if pause is None or error.is_final:
                        raise answers.port_error(operation, _of_all(failure, lost)) from error
                    hears = hears or hearing()
                    hears.failed(request, answers.port_error(operation, failure))
                await asyncio.sleep(pause)
        finally:
            if hears is not None:
                hears.over(request)

    async def insist(
        self, operation: Operation, request: ApiRequest, read: Callable[[bytes], Result]
    ) -> Result:
        """Send one short request until it is answered, as `repeat` does."""
        return await self.repeat(operation, partial(self.send, request, read))

    async def send(self, request: ApiRequest, read: Callable[[bytes], Result]) -> Result:
        """Send one short request once; gives what `read` makes of the answer's body."""
        headers, body = {**self._credentials, **request.headers}, None
        if request.content is not None:
            headers = {**headers, "Content-Type": "application/json"}
            body = json.dumps(request.content).encode()
        url = self._url(request)
        seconds = request.seconds or self.configuration.answer_seconds
        with _as_failed_request():
            answer = await self._http.ask(
                request.method, url, seconds=seconds, headers=headers, body=body
            )
        if answer.status not in _SUCCESS:
            text = answer.body.decode("utf-8", "replace")
            raise FailedRequestError(answers.read_refusal(answer.status, text), answer.headers)
        return read_answer(answer.body, read)

    @asynccontextmanager
    async def exchange(
        self,
        request: ApiRequest,
        headers: http.Headers = http.NO_HEADERS,
        body: Callable[[], http.Outgoing] | None = None,
    ) -> AsyncGenerator[http.Reply]:
        """Send one request to the API or the block store; gives its answer as it arrives.

        The block store may redirect to another region of its own.
        """
        is_ours, url = not request.signed_url, self._url(request)
        for _ in range(_EXCHANGES_MAX):
            with _as_failed_request():
                async with self._http.exchange(
                    request.method,
                    url,
                    silence_seconds=self.configuration.answer_seconds,
                    headers={**self._credentials, **headers} if is_ours else headers,
                    body=None if body is None else body(),
                ) as reply:
                    if reply.status in _SUCCESS:
                        yield reply
                        return
                    if not is_ours and reply.status in _FOLLOWED and "location" in reply.headers:
                        url = urljoin(url, reply.headers["location"])
                        continue
                    text = (await reply.read(_ERROR_BYTES_MAX)).decode("utf-8", "replace")
                    read = answers.read_refusal if is_ours else answers.store_refusal
                    raise FailedRequestError(read(reply.status, text), reply.headers)
        raise FailedRequestError(Lost("the block store redirects without end"), is_final=True)

    def _url(self, request: ApiRequest) -> str:
        """The address of a request; for a name that nothing can have, lakeFS's own answer.

        A server that cleans paths takes `..` out, and the rest is the address of something else.
        """
        if request.signed_url:
            return request.signed_url
        for kind, name in zip(request.path[::2], request.path[1::2], strict=False):
            if name in IMPOSSIBLE_NAMES:
                found = {"repositories": "repository", "branches": "branch"}.get(kind, "reference")
                raise FailedRequestError(Refused(404, f"{found} not found"))
        path = "/".join(quote(segment, safe="") for segment in request.path)
        return f"{self.address}/{path}?{urlencode(request.query, quote_via=quote, safe='')}"


def _of_all(last: Failure, lost: Failure | None) -> Failure:
    """What several attempts together came to.

    What the last one met says nothing about one that left before it (law L0): its effect may have
    happened.
    """
    if lost is None or answers.is_unknown(last):
        return last
    return Lost(f"{lost.text}; the last attempt: {last.text}")


def read_answer(body: bytes, read: Callable[[bytes], Result]) -> Result:
    """Read a successful answer; one that its reader cannot read is no answer."""
    try:
        return read(body)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        page = body[:60].decode("utf-8", "replace")
        text = shortened(f"unusable answer {page!r}: {type(error).__name__}: {error}")
        raise FailedRequestError(Lost(text)) from error


def _heard_from_a_thread() -> Repetitions:
    """What is told in this context, in the loop of this context, whichever thread tells."""
    hears, loop = hearing(), asyncio.get_running_loop()

    def in_the_loop(tell: Callable[Asked, object]) -> Callable[Asked, None]:
        def say(*given: Asked.args, **named: Asked.kwargs) -> None:
            with suppress(RuntimeError):  # the loop ended before the client's thread
                loop.call_soon_threadsafe(partial(tell, *given, **named))

        return say

    return Repetitions(in_the_loop(hears.failed), in_the_loop(hears.over))


@contextmanager
def _as_failed_request() -> Generator[None]:
    """Raise FailedRequestError for a request without a usable answer."""
    try:
        yield
    except http.NotSentError as error:
        final_one = isinstance(error, http.NotTrustedError)
        raise FailedRequestError(NotSent(shortened(str(error))), is_final=final_one) from error
    except http.NoAnswerError as error:
        broken = not isinstance(error.__cause__, TimeoutError)
        raise FailedRequestError(Lost(shortened(str(error)), broken=broken)) from error


async def side_by_side(
    given: Sequence[Given], work: Callable[[Given], Awaitable[Result]], at_once: int
) -> list[Result]:
    """Do all, so many at once; a task for each would be too many."""
    if len(given) == 1:  # needs no task beside this one
        return [await work(given[0])]
    results: dict[int, Result] = {}
    left = iter(enumerate(given))

    async def work_on() -> None:
        for number, one in left:
            results[number] = await work(one)

    await all_of(work_on() for _ in range(min(len(given), at_once)))
    return [results[number] for number in range(len(given))]


async def all_of(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Do all side by side; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
