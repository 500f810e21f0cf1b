"""A way to one server that goes away for a time, at the request that a test names.

toxiproxy breaks a connection when it is told to. Here the moment is a request of the attempt: the
request arrives, its answer does not, and from then on nobody listens, or nobody answers.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import final
from urllib.parse import urlsplit

CHUNK_BYTES = 64 * 1024
# Enough for the head of a request and the beginning of its body, over two chunks.
KEPT_BYTES = 2 * CHUNK_BYTES


def nothing() -> None:
    """No request is waited for."""


@final
class OutageProxy:
    """One address that leads to a server, most of the time."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = parts.hostname or "", parts.port or 80
        self._pattern: re.Pattern[bytes] | None = None
        self._matched: Callable[[], None] = nothing
        self._clients: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_away = False
        self._is_silent = False
        self._silenced: set[asyncio.StreamWriter] = set()
        self._port = 0

    @property
    def endpoint(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self._port}"

    def when(self, pattern: str, matched: Callable[[], None]) -> None:
        """Call `matched` at the first request that has this in it."""
        self._pattern, self._matched = re.compile(pattern.encode()), matched

    def leave(self) -> None:
        """Refuse connections from now on, and break the open ones."""
        self._is_away = True
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.transport.abort()

    def fall_silent(self) -> None:
        """Take what comes and carry nothing, as a network that drops packets."""
        self._is_silent = True
        self._silenced |= self._clients

    async def come_back(self) -> None:
        """Listen, on the same port; a connection that lost bytes stays silent for ever."""
        if self._is_silent:
            self._is_silent = False
            return
        self._is_away = False
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def end(self) -> None:
        """Leave for good, with every connection closed."""
        self.leave()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0.05)  # the loop closes the sockets in its next turns

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            if self._is_away:  # accepted just before, and served only now
                return
            if self._is_silent:
                self._silenced.add(writer)
            with suppress(OSError):
                await self._carry(reader, writer)
        finally:
            self._clients.discard(writer)
            self._silenced.discard(writer)
            if not writer.transport.is_closing():
                writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        answers = asyncio.create_task(self._answers(up_reader, writer))
        try:
            await self._requests(reader, writer, up_writer)
            # The server goes on with what it was sent: what arrived takes effect.
            await asyncio.wait([answers], timeout=60)
        finally:
            answers.cancel()
            up_writer.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> None:
        kept = b""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if client in self._silenced:
                    continue
                writer.write(chunk)
                await writer.drain()
                kept = (kept + chunk)[-KEPT_BYTES:]
                if self._pattern is not None and self._pattern.search(kept):
                    self._pattern = None
                    self._matched()
            if writer.can_write_eof():
                writer.write_eof()

    async def _answers(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if client not in self._silenced:
                    client.write(chunk)
                    await client.drain()
        if client not in self._silenced:
            client.close()


@asynccontextmanager
async def outage_proxy(upstream: str) -> AsyncGenerator[OutageProxy]:
    """A way to a server, for the block."""
    proxy = OutageProxy(upstream)
    await proxy.come_back()
    try:
        yield proxy
    finally:
        await proxy.end()
