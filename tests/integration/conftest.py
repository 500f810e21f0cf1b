"""Connections to the session's real servers, and a certificate for servers of a test's own."""

import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected
from tests.integration.worker_scene import WorkerScene, worker_scene
from tests.unprivileged import ReadablePython, readable_python

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.ports.installations import ConductorInstallation
from perago.testing import PeragoEnvironment
from perago.testing.remote_servers import RealServers, RemoteServers
from perago_servers import ConductorServer, LakefsServer


@pytest_asyncio.fixture
async def conductor(conductor_server: ConductorServer) -> AsyncIterator[ConductorInstallation]:
    """The real Conductor."""
    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    installation = open_conductor(settings)
    yield installation
    await installation.close()


@pytest_asyncio.fixture
async def lakefs(lakefs_server: LakefsServer) -> AsyncIterator[RealLakeFS]:
    """The real lakeFS with its set-up verbs."""
    async with connected(lakefs_server) as harness:
        yield harness


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """Two real servers and a folder for workers."""
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as opened:
        yield opened


@pytest.fixture
def address() -> str:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def kit_servers(
    lakefs_server: LakefsServer, conductor_workers_server: ConductorServer
) -> RealServers:
    """The addresses and keys by which the kit works on the real servers."""
    return RealServers(
        lakefs_url=lakefs_server.endpoint,
        access_key_id=lakefs_server.access_key_id,
        secret_access_key=lakefs_server.secret_access_key,
        namespace_root=lakefs_server.namespace_root,
        conductor_url=conductor_workers_server.api_url,
    )


@pytest.fixture
def env(kit_servers: RealServers) -> Iterator[PeragoEnvironment]:
    """The kit on real servers; it is closed when no loop runs any more."""
    with PeragoEnvironment(servers=RemoteServers(kit_servers)) as opened:
        yield opened


@pytest.fixture(scope="session")
def python() -> Generator[ReadablePython]:
    """An interpreter that users without rights can run."""
    with tempfile.TemporaryDirectory() as folder:
        yield readable_python(Path(folder))


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """A folder for everybody; the folders of pytest are their owner's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that signs itself, with its key in the same file."""
    directory = tmp_path_factory.mktemp("tls")
    made, key = directory / "certificate.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    made.write_bytes(key.read_bytes() + made.read_bytes())
    return made
