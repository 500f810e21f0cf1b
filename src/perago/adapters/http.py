"""The one HTTP client for what Perago sends itself: Conductor, bytes of objects, block stores.

aiohttp speaks the protocol: connections that are kept, TLS, proxies, several addresses of a name,
chunks, early answers. This module sets what aiohttp leaves open or decides otherwise than Perago
needs (docs/adr/0011): a request leaves once, an upload has a limit for silence, an address goes out
letter by letter. And it says what became of a request that got no answer: it was never sent, or
its outcome is unknown. The adapters know what a status means.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, TypeAlias, TypeVar, final

import aiohttp
from yarl import URL

# Below the idle time-outs of servers and balancers. A balancer that drops idle connections in
# silence (Azure's does after 4 minutes) would otherwise cost each request a whole time-out.
IDLE_SECONDS_MAX = 5.0
# Several round trips of a far server. A server that drops packets costs this for each try.
CONNECT_SECONDS = 5.0
# A second address of a name is tried beside the first after this long (RFC 8305 says 250 ms): a
# dead IPv6 address then costs a quarter of a second and not the connect time-out.
SECOND_ADDRESS_SECONDS = 0.25
# One read of a body. Smaller pieces cost more calls, larger ones are not filled by the kernel.
PIECE_BYTES = 256 * 1024
# Of an answer that is read whole: far above a listing of 1,000 names or a workflow with its rows.
# It only keeps a broken server or proxy from filling the memory.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
# How long a cancelled caller waits for the end of its work in another thread. A request ends within
# a piece of its body, so this is for a loop that hangs, and a drain must not hang with it.
ABANDONED_SECONDS_MAX = 3.0
CLOSE_SECONDS = 2.0  # a connection that does not close keeps no process waiting

Value = TypeVar("Value")
Headers: TypeAlias = Mapping[str, str]
NO_HEADERS: Headers = {}


class RequestFailedError(Exception):
    """A request without a usable answer; adapters map it, it never leaves them."""


class NotSentError(RequestFailedError):
    """The request did not leave: no connection, no trusted server, no usable address."""


class NotTrustedError(NotSentError):
    """The certificate is not trusted, or it speaks no TLS; asking again changes nothing."""


class NoAnswerError(RequestFailedError):
    """The request left, wholly or in part; whether the server acted on it is not known."""


@dataclass(frozen=True, slots=True)
class HttpTerms:
    """On which terms this process talks to servers."""

    ca_file: Path | None = None  # trusted in addition to the CAs that the machine trusts
    verify_tls: bool = True
    # None: no proxy. A proxy's address may hold a password.
    proxy_of: Callable[[str], str | None] | None = field(default=None, repr=False)
    connect_seconds: float = CONNECT_SECONDS


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole; its headers are found in any case."""

    status: int
    headers: Headers
    body: bytes


@final
class Reply:
    """An answer whose body is still arriving."""

    def __init__(self, response: aiohttp.ClientResponse, sent: "_SentOnce") -> None:
        self._response = response
        self._sent = sent
        self.status = response.status
        self.headers: Headers = response.headers

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives; a connection that breaks or stalls is NoAnswerError."""
        while True:
            try:
                piece = await self._response.content.read(PIECE_BYTES)
            except _FAILURES as error:
                self._sent.raise_for(error)
            if not piece:
                return
            yield piece

    async def read(self, size_max: int) -> bytes:
        """Return the whole body, refused beyond a size that no honest answer has."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > size_max:
                raise NoAnswerError(f"an answer of more than {size_max} bytes")
        return bytes(body)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A body that is sent piece by piece; its length is known, so it never goes out chunked."""

    pieces: AsyncIterable[bytes]
    length: int


@dataclass(eq=False, slots=True)
class _SentOnce:
    """Lets a request leave once, and keeps whether it did.

    aiohttp sends GET, PUT and DELETE again by itself when a connection breaks, and has no public
    switch for it. A repeated PUT of a part or of a decision is not ours to allow, so the second
    pass through the middleware is refused. The mark is set before the first byte leaves: a doubt
    is then read as "unknown", which is the side on which no publication is lost.
    """

    left: bool = False
    of_body: Exception | None = None
    """What the body itself raised, which says nothing about the server."""

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self.left:
            raise NoAnswerError("the connection broke after the request had left")
        return await handler(request)

    def raise_for(self, error: Exception) -> NoReturn:
        """Raise what a broken exchange means, or what the body raised that broke it."""
        if self.of_body is not None:  # aiohttp has made a lost request of it
            raise self.of_body from self.of_body.__cause__
        raise self.failure(error) from _cause(error)

    def failure(self, error: BaseException) -> RequestFailedError:
        """Say what a broken exchange means for the request."""
        if isinstance(error, RequestFailedError):
            return error
        said = without_query(f"{type(error).__name__}: {error}".removesuffix(": "))
        if isinstance(error, aiohttp.ClientConnectorCertificateError) or _speaks_no_tls(error):
            return NotTrustedError(said)
        return NoAnswerError(said) if self.left else NotSentError(said)


# What OpenSSL calls an answer that is not TLS: the address says https, and the port serves http.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})


def _speaks_no_tls(error: BaseException) -> bool:
    cause: object = getattr(error, "os_error", None)
    is_tls = isinstance(error, aiohttp.ClientConnectorSSLError)
    return is_tls and getattr(cause, "reason", None) in _NO_TLS


def time_of(headers: Headers) -> datetime | None:
    """What the server's clock said when it answered."""
    try:
        said = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    # RFC 9110 writes GMT; a date without a zone is that too.
    return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)


def without_query(text: str) -> str:
    """Text without the queries of addresses in it: that of a signed one is a key for minutes."""
    return _QUERY.sub("?...", text)


def _address(url: str) -> URL:
    """Read an address as it is, because a signed one must arrive letter by letter."""
    address = URL(url, encoded=True)
    if address.scheme not in {"http", "https"} or not address.host:
        # aiohttp would refuse it too, with the whole of it and its signature in the text.
        raise NotSentError(f"{without_query(url)!r} is no http(s) address")
    return address


def _cause(error: Exception) -> Exception | None:
    """What a log shows as the cause of a failure: aiohttp writes whole addresses into its texts."""
    is_ours, text = isinstance(error, RequestFailedError), str(error)
    return None if is_ours or without_query(text) != text else error


_QUERY = re.compile(r"\?[^\s'\"<>]*=[^\s'\"<>]*")
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, ValueError, RequestFailedError)


async def _mark_sent(_session: object, context: SimpleNamespace, _params: object) -> None:
    context.trace_request_ctx.left = True


@final
class HttpClient:
    """Sends requests; keeps connections per event loop, because they belong to one."""

    def __init__(self, terms: HttpTerms = HttpTerms()) -> None:
        self._terms = terms
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def ask(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        headers: Headers = NO_HEADERS,
        body: bytes | None = None,
    ) -> Answer:
        """Send a small request and read its whole answer within `seconds`."""
        sent = _SentOnce()
        try:
            async with (
                asyncio.timeout(seconds),
                self.exchange(
                    method, url, silence_seconds=seconds, headers=headers, body=body, sent=sent
                ) as reply,
            ):
                return Answer(reply.status, reply.headers, await reply.read(ANSWER_BYTES_MAX))
        except TimeoutError as error:
            raise sent.failure(TimeoutError(f"no answer after {seconds:g} s")) from error

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        url: str,
        *,
        silence_seconds: float,
        headers: Headers = NO_HEADERS,
        body: bytes | Outgoing | None = None,
        sent: _SentOnce | None = None,
    ) -> AsyncGenerator[Reply]:
        """Send one request and hand out its answer as it arrives.

        `silence_seconds` bounds each wait without progress: while the body is sent, before the
        answer begins and between its pieces. It does not bound the whole, because a slow, steady
        transfer of a large object is not a failure.
        """
        sent, loop = sent or _SentOnce(), asyncio.get_running_loop()
        outgoing: object = body
        try:
            # aiohttp limits waiting for an answer, but not sending. A server that stops reading an
            # upload would hold it for ever, so this limit starts again with every piece.
            async with asyncio.timeout(None) as silence:
                if isinstance(body, Outgoing):
                    headers = {**headers, "Content-Length": str(body.length)}
                    outgoing = _watched(body.pieces, sent, silence, silence_seconds)
                proxy, headers, tunnel_headers = self._way(url, headers)
                session = self._sessions.get(loop) or self._open_session(loop)
                response = await session.request(
                    method,
                    _address(url),
                    headers=headers,
                    data=outgoing,
                    proxy=proxy,
                    proxy_headers=tunnel_headers,
                    ssl=self._tls if url.startswith("https:") else True,
                    allow_redirects=False,  # a redirected POST would become a GET
                    timeout=aiohttp.ClientTimeout(
                        connect=self._terms.connect_seconds,
                        sock_connect=self._terms.connect_seconds,
                        sock_read=silence_seconds,
                    ),
                    trace_request_ctx=sent,
                    middlewares=(sent,),
                )
        except _FAILURES as error:
            sent.raise_for(error)
        try:
            yield Reply(response, sent)
        finally:
            response.release()  # closes the connection if the body was not read to its end

    async def close(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # sockets close in the loop's next turn

    def _way(self, url: str, headers: Headers) -> tuple[URL | None, Headers, Headers | None]:
        """Return the proxy, the headers of the request, and those of CONNECT for a tunnel."""
        address = self._terms.proxy_of and self._terms.proxy_of(url)
        if address and "://" not in address:
            address = f"http://{address}"  # as curl reads `HTTP_PROXY=proxy:3128`
        proxy = URL(address) if address else None
        if proxy is not None and proxy.scheme not in {"http", "https"}:
            raise NotSentError(f"a {proxy.scheme} proxy cannot be used: expected an http one")
        if proxy is None or proxy.user is None:
            return proxy, headers, None
        user = {"Proxy-Authorization": aiohttp.encode_basic_auth(proxy.user, proxy.password or "")}
        proxy = proxy.with_user(None)
        if url.startswith("https:"):
            return proxy, headers, user
        return proxy, {**headers, **user}, None  # aiohttp sends the other ones with CONNECT only

    def _open_session(self, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_mark_sent)
        session = self._sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the callers bound themselves, by what their server can take
                keepalive_timeout=IDLE_SECONDS_MAX,
                happy_eyeballs_delay=SECOND_ADDRESS_SECONDS,
            ),
            auto_decompress=False,  # the bytes of an object are what was stored
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # proxies and keys come from the settings, by one rule
            read_bufsize=PIECE_BYTES,
            # The type would have to be part of the signature, and it is not.
            skip_auto_headers=("Accept-Encoding", "Content-Type"),
            headers={"User-Agent": "perago"},
            trace_configs=[trace],
        )
        return session

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Trust what the machine trusts, and the CA file besides.

        A private CA for lakeFS must not make a block store with a public certificate unreachable.
        """
        terms, context = self._terms, ssl.create_default_context()
        if terms.ca_file is not None:
            try:
                context.load_verify_locations(terms.ca_file)
            except OSError as error:  # an SSLError is one
                text = f"{terms.ca_file} cannot be used as a CA file: {error}"
                raise NotSentError(text) from error
        if not terms.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def _watched(
    pieces: AsyncIterable[bytes], sent: _SentOnce, silence: asyncio.Timeout, seconds: float
) -> AsyncGenerator[bytes]:
    """Let the pieces of a body leave; the limit begins anew with each, and with the last."""
    loop = asyncio.get_running_loop()

    def begin_anew() -> None:
        with suppress(RuntimeError):  # it is over, because the answer has begun: that has its own
            silence.reschedule(loop.time() + seconds)

    try:
        async for piece in pieces:
            begin_anew()
            yield piece
    except Exception as error:
        sent.of_body = error
        raise
    begin_anew()


@final
class LoopThread:
    """An event loop in a thread, for callers without one, or whose own ends too early."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock, self._is_closed = threading.Lock(), False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the machine allows no further thread
            self._loop.close()
            raise NotSentError(str(error)) from error

    async def run(self, work: Coroutine[object, object, Value]) -> Value:
        """Run a coroutine there and wait for it in the caller's loop; NotSentError once it closes.

        A caller that is cancelled cancels it, and waits a moment for its end, because what it
        leaves behind can be removed only then.
        """
        ended: Future[Value] = Future()
        tasks: list[asyncio.Task[Value]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(partial(_hand_over, ended))

        with self._lock:
            if self._is_closed:
                work.close()  # Python warns of a coroutine that is dropped
                raise NotSentError("the client was closed meanwhile")
            self._loop.call_soon_threadsafe(start)
        waiting = asyncio.wrap_future(ended)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            # Heard, or asyncio logs that its error was never retrieved.
            waiting.add_done_callback(lambda gone: gone.cancelled() or gone.exception())
            await asyncio.wait([waiting], timeout=ABANDONED_SECONDS_MAX)
            raise

    def close(self, last: Coroutine[object, object, None]) -> None:
        """Cancel what is under way, do the last work, then stop the loop and end its thread.

        In this order, as what goes on would open connections again. Who waits in another thread
        gets NoAnswerError; left alone, it would wait for ever.
        """

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:  # asyncio refuses to wait for none
                await asyncio.wait(tasks, timeout=ABANDONED_SECONDS_MAX)
            await asyncio.wait_for(last, CLOSE_SECONDS)

        with self._lock:  # what is handed in after this would never end
            self._is_closed = True
        with suppress(TimeoutError):
            ended = asyncio.run_coroutine_threadsafe(end(), self._loop)
            ended.result(ABANDONED_SECONDS_MAX + CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _hand_over(ended: Future[Value], task: asyncio.Task[Value]) -> None:
    """Give a task's end to those who wait in other threads."""
    if task.cancelled():  # by its caller, who has gone, or because the loop is closed
        ended.set_exception(NoAnswerError("the client was closed meanwhile"))
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(task.result())
