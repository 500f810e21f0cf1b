"""Records what workers and operators ask lakeFS and Conductor: a reverse proxy on loopback.

It stands outside the processes that are killed, so that nothing of theirs is lost: a request that
has arrived is sent on and its answer is written down, whether or not its sender lives to hear it.
It can also do what a network does: lose the answer, or let go of the request without one.
"""

import gzip
import json
import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO, cast

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from tests.histories.exchange import END, Exchange, Json
from yarl import URL

FOLDER = "PERAGO_HISTORIES"  # where runs keep their histories, instead of build/histories
KEPT = Path(__file__).parents[2] / "build" / "histories"
# What belongs to one connection, and what the proxy decides itself: it records plain text.
OF_A_CONNECTION = frozenset(
    {"connection", "host", "keep-alive", "transfer-encoding", "content-length", "accept-encoding"}
)
REQUEST_BYTES_MAX = 64 * 1024 * 1024
TEXT_MAX = 2_000
ANSWER_LOST = "the answer was lost"
LET_GO = "the connection broke before an answer"


@dataclass(slots=True)
class Network:
    """How often, of all requests of the workers, something is lost on the way."""

    loses_answer: float = 0.0
    lets_go: float = 0.0
    chance: random.Random = field(default_factory=random.Random)

    def fault(self) -> str:
        """What becomes of the next request."""
        drawn = self.chance.random()
        if drawn < self.loses_answer:
            return ANSWER_LOST
        return LET_GO if drawn < self.loses_answer + self.lets_go else ""

    def heal(self) -> None:
        """Lose nothing from now on."""
        self.loses_answer = self.lets_go = 0.0


NO_FAULTS = Network()


@dataclass(slots=True)
class Recording:
    """One file; its doors are the addresses that workers and operators are given."""

    path: Path
    file: TextIO
    lines: int = 0
    _open: dict[int, Exchange] = field(default_factory=dict[int, Exchange])
    _asked: int = 0

    @asynccontextmanager
    async def door(
        self, who: str, server: str, endpoint: str, network: Network = NO_FAULTS
    ) -> AsyncGenerator[str]:
        """An address that leads to a server; what goes through it is recorded."""
        # A connection of its own for each request: aiohttp sends a request a second time when a
        # connection that it had kept turns out to be closed, and nobody would see the first.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=600)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            door = _Door(self, who, server, endpoint, session, network)
            app = web.Application(client_max_size=REQUEST_BYTES_MAX)
            app.router.add_route("*", "/{path:.*}", door.handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                port = runner.addresses[0][1]
                yield f"http://127.0.0.1:{port}"
            finally:
                await runner.cleanup()

    def ask(self, exchange: Exchange) -> int:
        """A request is about to be sent."""
        self._asked += 1
        self._open[self._asked] = exchange
        return self._asked

    def answer(self, number: int, exchange: Exchange) -> None:
        """What became of it."""
        del self._open[number]
        self._write(exchange)

    def found(self, what: str, facts: Json) -> None:
        """What was found when all was over."""
        now = time.monotonic()
        self._write(Exchange(END, "recorder", "FOUND", what, now, now, 200, answer=facts))

    def close(self) -> None:
        """Write down what was never answered."""
        for exchange in self._open.values():
            self._write(exchange)
        self._open.clear()
        self.file.close()

    def _write(self, exchange: Exchange) -> None:
        self.lines += 1
        self.file.write(f"{exchange.line()}\n")


@dataclass(slots=True)
class _Door:
    recording: Recording
    who: str
    server: str
    endpoint: str
    session: aiohttp.ClientSession
    network: Network

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send on, write down, answer."""
        sent = await request.read()
        exchange = Exchange(
            self.server,
            f"{self.who} {_port_of(request)}",
            request.method,
            request.path,
            time.monotonic(),
            query=dict(request.query),
            request=_readable(sent),
            fault=self.network.fault(),
        )
        number = self.recording.ask(exchange)
        try:
            answer, heard = await self._heard(request, sent, exchange)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            fault = exchange.fault or type(error).__name__
            self.recording.answer(number, replace(exchange, fault=fault))
            return _cut(request)
        self.recording.answer(number, heard)
        return answer if exchange.fault != ANSWER_LOST else _cut(request)

    async def _heard(
        self, request: web.Request, sent: bytes, exchange: Exchange
    ) -> tuple[web.Response, Exchange]:
        headers = _without(request.headers)
        headers["Accept-Encoding"] = "identity"
        address = URL(f"{self.endpoint}{request.raw_path}", encoded=True)
        asking = self.session.request(
            request.method, address, headers=headers, data=sent or None, allow_redirects=False
        )
        async with asking as answer:
            if exchange.fault == LET_GO:
                raise aiohttp.ClientConnectionError(LET_GO)
            content = await answer.read()
            heard = replace(
                exchange,
                answered=time.monotonic(),
                status=answer.status,
                answer=_readable(content),
            )
            headers = _without(answer.headers)
            if request.method == "HEAD":
                headers["Content-Length"] = answer.headers.get("Content-Length", "0")
            return web.Response(status=answer.status, headers=headers, body=content), heard


def _without(headers: Mapping[str, str]) -> CIMultiDict[str]:
    kept = [(name, value) for name, value in headers.items() if name.lower() not in OF_A_CONNECTION]
    return CIMultiDict(kept)


def _port_of(request: web.Request) -> int:
    """Tells the connections of one sender apart."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return int(cast("tuple[str, int]", peer)[1]) if peer else 0


def _cut(request: web.Request) -> web.Response:
    """The sender sees a connection that breaks."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _readable(content: bytes) -> Json:
    """JSON as it is, short text as text, of everything else the length."""
    if not content:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"bytes": len(content)}
    try:
        found: Json = json.loads(text)
    except ValueError:
        return text if len(text) <= TEXT_MAX else {"bytes": len(content)}
    return found


@contextmanager
def recording(name: str) -> Generator[Recording]:
    """A file that is kept, also when the run fails."""
    folder = Path(os.environ.get(FOLDER) or KEPT)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.jsonl.gz"
    kept = Recording(path, gzip.open(path, "wt", compresslevel=1, encoding="utf-8"))  # noqa: SIM115
    try:
        yield kept
    finally:
        kept.close()
