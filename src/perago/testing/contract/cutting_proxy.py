"""A proxy on loopback that loses answers: law L0, provoked on adapters of a server.

It knows bytes and no protocol. Without TLS, because the first bytes of a handshake are no answer.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import final
from urllib.parse import urlsplit, urlunsplit

PIECE_BYTES = 64 * 1024  # one read of a socket


@final
class CuttingProxy:
    """Passes everything on; from `cut` on, the first bytes of an answer end the connection.

    A server answers after the effect, so an effect whose answer was cut has happened.
    """

    def __init__(self, server_url: str) -> None:
        self._parts = urlsplit(server_url)
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self._cuts = False
        self._sent = b""
        self.answers_lost = 0

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        return urlunsplit(self._parts._replace(netloc=f"127.0.0.1:{self.port}"))

    def cut(self) -> None:
        """Lose every answer from now on."""
        self._cuts = True

    def cut_after(self, sent: bytes) -> None:
        """Lose the answer to the next request that holds these bytes, and no other."""
        self._sent = sent

    def heal(self) -> None:
        """Lose nothing more."""
        self._cuts = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end closes it, or its answer is cut."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        server_reader, server_writer = await asyncio.open_connection(
            self._parts.hostname, self._parts.port
        )
        is_cut = asyncio.Event()
        to_server = asyncio.ensure_future(self._carry(reader, server_writer, is_cut))
        try:
            with suppress(ConnectionError):
                while answer := await server_reader.read(PIECE_BYTES):
                    if self._cuts or is_cut.is_set():
                        self.answers_lost += 1
                        return
                    writer.write(answer)
                    await writer.drain()
        finally:
            to_server.cancel()
            for each in (writer, server_writer):
                each.transport.abort()
            self._connections.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_cut: asyncio.Event
    ) -> None:
        """Carry requests; `is_cut` is set when the one has left whose answer is to be lost."""
        with suppress(ConnectionError):
            while request := await reader.read(PIECE_BYTES):
                if self._sent and self._sent in request:
                    self._sent = b""
                    is_cut.set()
                writer.write(request)
                await writer.drain()
        # The client has gone; the server's end closes with its answer, or with the proxy.
        writer.close()

    async def end(self) -> None:
        """Cut every connection."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


@asynccontextmanager
async def cutting_proxy(server_url: str) -> AsyncGenerator[CuttingProxy]:
    """Open a proxy to the server at an address such as `http://127.0.0.1:8000/api`."""
    proxy = CuttingProxy(server_url)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.end()
