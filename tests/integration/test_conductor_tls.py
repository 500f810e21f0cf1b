"""TLS and proxies of the Conductor adapter: what the SDK reads and then forgets is in force."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perago.adapters.conductor.client import SdkApiClient
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.task_queue import ConductorTaskQueue
from perago.ports.errors import UnavailableError

pytestmark = pytest.mark.conductor

VERSION = "3.32.3"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of 127.0.0.1 that signs itself."""

    certificate: Path
    key: Path

    def server_side(self) -> ssl.SSLContext:
        """The context of a server that shows it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    directory = tmp_path_factory.mktemp("tls")
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return made


@dataclass
class Answering:
    """A server that answers every request with a version; a proxy, if somebody takes it for one."""

    port: int = 0
    lines: list[str] = field(default_factory=list[str])

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.lines.append(head.split(b"\r\n")[0].decode())
        body = f"Content-Length: {len(VERSION)}\r\nConnection: close\r\n\r\n{VERSION}"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{body}".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def answering(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Answering]:
    served = Answering()
    async with await asyncio.start_server(served.answer, "127.0.0.1", 0, ssl=tls) as server:
        served.port = server.sockets[0].getsockname()[1]
        yield served


async def check(settings: ConductorSettings) -> str:
    client = SdkApiClient(settings)
    try:
        return await ConductorTaskQueue(client).check()
    finally:
        await asyncio.to_thread(client.close)


async def test_a_certificate_that_nobody_vouches_for_is_refused(own: Certificate) -> None:
    async with answering(own.server_side()) as server:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await check(ConductorSettings(f"https://127.0.0.1:{server.port}/api"))


async def test_a_certificate_of_the_given_authority_is_accepted(own: Certificate) -> None:
    async with answering(own.server_side()) as server:
        url = f"https://127.0.0.1:{server.port}/api"
        assert await check(ConductorSettings(url, ca_file=str(own.certificate))) == VERSION


async def test_verification_can_be_switched_off(own: Certificate) -> None:
    async with answering(own.server_side()) as server:
        url = f"https://127.0.0.1:{server.port}/api"
        assert await check(ConductorSettings(url, verify_tls=False)) == VERSION


async def test_a_server_that_asks_for_a_certificate_is_shown_one(own: Certificate) -> None:
    context = own.server_side()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.certificate)
    async with answering(context) as server:
        settings = ConductorSettings(
            f"https://127.0.0.1:{server.port}/api",
            ca_file=str(own.certificate),
            client_certificate=str(own.certificate),
            client_key=str(own.key),
        )
        assert await check(settings) == VERSION


async def test_requests_go_through_the_given_proxy() -> None:
    async with answering() as proxy:
        settings = ConductorSettings(
            "http://conductor.invalid:8080/api", proxy=f"http://127.0.0.1:{proxy.port}"
        )
        assert await check(settings) == VERSION
    assert proxy.lines == ["GET http://conductor.invalid:8080/api/version HTTP/1.1"]
