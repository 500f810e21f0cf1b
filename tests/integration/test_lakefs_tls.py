"""TLS and proxies of the lakeFS adapter: what is configured is in force."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.answers import Operation, storage_terms
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.ports.errors import UnavailableError
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

BODY = b'{"storage_config": {}}'
LAKEFS = LakeFSConfiguration(
    endpoint_url="http://lakefs.invalid:8000", access_key_id="key", secret_access_key="secret"
)


@dataclass
class Answering:
    """Answers every request with a configuration; a proxy, if somebody takes it for one."""

    port: int = 0
    heads: list[str] = field(default_factory=list[str])

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        length = f"Content-Length: {len(BODY)}\r\nConnection: close\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + length.encode() + BODY)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def answering(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Answering]:
    served = Answering()
    async with await asyncio.start_server(served.answer, "127.0.0.1", 0, ssl=tls) as server:
        served.port = server.sockets[0].getsockname()[1]
        yield served


@pytest.fixture
def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def through(proxy: str) -> LakeFSConfiguration:
    return replace(LAKEFS, http=HttpTerms(proxy_of=lambda _: proxy))


async def ask_config(client: LakeFSClient) -> None:
    await client.ask(Operation("ask", "it"), ApiRequest("GET", ("config",)), storage_terms)


async def check(configuration: LakeFSConfiguration) -> None:
    client = LakeFSClient(configuration)
    try:
        await ask_config(client)
    finally:
        client.close()


async def test_an_untrusted_certificate_is_refused_and_nothing_is_sent(
    server_side: ssl.SSLContext,
) -> None:
    async with answering(server_side) as server:
        url = f"https://127.0.0.1:{server.port}"

        with pytest.raises(UnavailableError, match=r"nothing was sent.*CERTIFICATE_VERIFY_FAILED"):
            await check(replace(LAKEFS, endpoint_url=url))

        assert server.heads == []


async def test_a_certificate_of_the_given_authority_is_accepted(
    server_side: ssl.SSLContext, certificate: Path
) -> None:
    async with answering(server_side) as server:
        url = f"https://127.0.0.1:{server.port}"

        await check(replace(LAKEFS, endpoint_url=url, http=HttpTerms(ca_file=certificate)))


async def test_verification_can_be_switched_off(server_side: ssl.SSLContext) -> None:
    async with answering(server_side) as server:
        url = f"https://127.0.0.1:{server.port}"

        await check(replace(LAKEFS, endpoint_url=url, http=HttpTerms(verify_tls=False)))


async def test_tls_spoken_to_a_plain_server_sends_nothing(lakefs_server: LakefsServer) -> None:
    url = lakefs_server.endpoint.replace("http:", "https:")

    with pytest.raises(UnavailableError, match=r"nothing was sent: .*SSL"):
        await check(replace(LAKEFS, endpoint_url=url))


async def test_requests_go_through_the_given_proxy_with_its_credentials() -> None:
    async with answering() as proxy:
        await check(through(f"http://user:pass@127.0.0.1:{proxy.port}"))

    (head,) = proxy.heads
    assert head.startswith("GET http://lakefs.invalid:8000/api/v1/config")
    assert "proxy-authorization: basic dxnlcjpwyxnz" in head.lower()


async def test_a_proxy_that_does_not_listen_means_that_nothing_was_sent() -> None:
    async with answering() as proxy:
        port = proxy.port

    with pytest.raises(UnavailableError, match="nothing was sent"):
        await check(through(f"http://127.0.0.1:{port}"))


async def test_a_closed_client_sends_nothing() -> None:
    client = LakeFSClient(LAKEFS)
    client.close()

    with pytest.raises(UnavailableError, match="nothing was sent"):
        await ask_config(client)
