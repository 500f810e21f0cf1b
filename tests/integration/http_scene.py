"""A server on loopback that does with each request what a test says, down to the bytes.

It counts what arrives: connections, and requests whose head was read whole. So a test can show
that a request left once, or that no connection was made for it.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class Arrived:
    """One request, and the ways to answer it."""

    line: str
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    body: bytes = b""

    async def read_body(self) -> bytes:
        """Read the body that was announced."""
        self.body = await self.reader.readexactly(int(self.headers.get("content-length", "0")))
        return self.body

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes = b"", status: str = "200 OK", *headers: str) -> None:
        """Send a whole answer."""
        lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
        await self.send("\r\n".join(lines).encode() + body)

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


# Returns whether the connection is kept for another request.
Script: TypeAlias = Callable[[Arrived], Awaitable[bool]]


@dataclass(slots=True)
class ScriptedServer:
    """What one server saw."""

    script: Script
    port: int = 0
    scheme: str = "http"
    connections: int = 0
    closed: int = 0
    requests: list[Arrived] = field(default_factory=list[Arrived])
    tasks: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                keep = True
                while keep:
                    head = (await reader.readuntil(HEAD_END)).decode("latin-1").split("\r\n")
                    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                    arrived = Arrived(head[0], headers, reader, writer)
                    self.requests.append(arrived)
                    keep = await self.script(arrived)
            writer.close()
        finally:
            self.closed += 1
            self.tasks.discard(task)
            if not writer.is_closing():  # the test is over in the middle of a request
                writer.transport.abort()


@asynccontextmanager
async def scripted(
    script: Script, certificate: Path | None = None
) -> AsyncGenerator[ScriptedServer]:
    """A server that runs the script for every request, with TLS if there is a certificate."""
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server = ScriptedServer(script, scheme="http" if tls is None else "https")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(server.tasks):
            task.cancel()
        if server.tasks:
            await asyncio.wait(server.tasks)
        await asyncio.sleep(0)


async def good(arrived: Arrived) -> bool:
    """Answer with the body that came, and keep the connection."""
    await arrived.answer(await arrived.read_body() or b"fine")
    return True
