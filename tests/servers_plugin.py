"""Session fixtures for real servers: started by the first test that asks, once per session.

Decides that a server which is missing is an error and never a skip. Variables named
PERAGO_TEST_* (what `python -m perago_servers up` prints) name servers to use instead.
"""

import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

import perago_servers as servers
from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer
from perago_servers.__main__ import PROGRAMS

FETCHED_FOR = {
    "lakefs": ("lakefs", "toxiproxy", "versitygw"),
    "conductor": ("conductor", "toxiproxy"),
    "spark": ("spark-jars",),
}
# The first test of a session also waits for its server.
TIMEOUT_SECONDS = 300
LOGS = Path("build") / "server-logs"


class Server(Protocol):
    """What every server handle has."""

    @property
    def log(self) -> Path | None:
        """Return its log, when this session started it."""
        ...


S = TypeVar("S", bound=Server)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on real servers the time in which a server may start."""
    for item in items:
        on_servers = any(item.get_closest_marker(name) for name in FETCHED_FOR)
        if on_servers and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch what the selected tests need, before any test's clock runs."""
    if session.config.option.collectonly:
        return
    for marker, names in FETCHED_FOR.items():
        if any(item.get_closest_marker(marker) for item in session.items):
            for name in names:
                PROGRAMS[name].fetch()


@contextmanager
def _for_session(
    request: pytest.FixtureRequest,
    name: str,
    named: S | None,
    start: Callable[[], AbstractContextManager[S]],
) -> Generator[S]:
    """Yield the server the environment names, else one of our own; keep logs of failures."""
    if named is not None:
        yield named
        return
    with ExitStack() as stack:
        server = stack.enter_context(start())
        yield server
        if request.session.testsfailed and server.log is not None:
            place = request.config.rootpath / LOGS
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(server.log, place / f"{name}.log")


@pytest.fixture(scope="session")
def lakefs_server(request: pytest.FixtureRequest) -> Generator[LakefsServer]:
    """A lakeFS with a local block store."""
    named = LakefsServer.given("lakefs")
    with _for_session(request, "lakefs", named, servers.lakefs_server) as server:
        yield server


@pytest.fixture(scope="session")
def lakefs_s3_server(request: pytest.FixtureRequest) -> Generator[LakefsServer]:
    """A lakeFS with an S3 block store: presigned URLs."""
    named = LakefsServer.given("lakefs-s3")
    with _for_session(
        request, "lakefs-s3", named, lambda: servers.lakefs_server(flavour="s3")
    ) as server:
        yield server


@pytest.fixture(scope="session")
def conductor_server(request: pytest.FixtureRequest) -> Generator[ConductorServer]:
    """A Conductor without system workers."""
    named = ConductorServer.given("conductor")
    with _for_session(request, "conductor", named, servers.conductor_server) as server:
        yield server


@pytest.fixture(scope="session")
def conductor_workers_server(request: pytest.FixtureRequest) -> Generator[ConductorServer]:
    """A Conductor whose JOIN and DO_WHILE tasks move."""
    named = ConductorServer.given("conductor-workers")
    with _for_session(
        request,
        "conductor-workers",
        named,
        lambda: servers.conductor_server(profile="workers"),
    ) as server:
        yield server


@pytest.fixture(scope="session")
def toxiproxy(request: pytest.FixtureRequest) -> Generator[ToxiproxyServer]:
    """A toxiproxy without proxies."""
    named = ToxiproxyServer.given("toxiproxy")
    with _for_session(request, "toxiproxy", named, servers.toxiproxy_server) as server:
        yield server
