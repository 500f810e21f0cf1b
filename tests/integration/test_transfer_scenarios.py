"""Transfers from servers that misbehave: the exact bytes, or an error of the port in good time."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.adapters.transfer.configuration import RouteChoice, TransferConfiguration
from perago.adapters.transfer.http_transport import HttpTransport
from perago.domain.references import RepositoryId
from perago.ports.errors import UnavailableError
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry

REPOSITORY = RepositoryId("repository")


@asynccontextmanager
async def stalling_server(announced: int, sent: int, tls: Path | None) -> AsyncGenerator[str]:
    """A server that begins each body, and then says nothing for ever."""
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n"
        writer.write(head.encode() + bytes(sent))

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize("over", ["plain", "tls"])
@pytest.mark.parametrize("size", [1024**2, 2 * 1024**2], ids=["1 MiB", "2 MiB"])
async def test_a_body_that_stalls_is_given_up(
    tmp_path: Path, certificate: Path, over: str, size: int
) -> None:
    tls = certificate if over == "tls" else None
    order = FetchOrder(ObjectEntry("data/x", "0" * 32, size), tmp_path / "x")
    async with stalling_server(size, size // 2, tls) as endpoint_url:
        configuration = TransferConfiguration(
            endpoint_url=endpoint_url,
            access_key_id="id",
            secret_access_key="secret",
            ca_file=tls,
            route=RouteChoice.API,
            answer_seconds=0.5,
            tries_max=2,
        )
        concurrency = AsyncioConcurrency()
        transport = HttpTransport(configuration, concurrency)
        with pytest.raises(UnavailableError):
            await transport.fetch(REPOSITORY, "main", [order])
        transport.close()
        concurrency.close()
    assert not os.listdir(tmp_path)  # noqa: PTH208 - an async test may not use Path.iterdir
