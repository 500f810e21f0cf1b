"""Session fixtures for real servers: started by the first test that asks, once per session.

Decides that a server which is missing is an error and never a skip. Variables named
PERAGO_TEST_* (what `python -m perago_servers up` prints) name servers to use instead.
"""

import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

import perago_servers as servers
from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer
from perago_servers.__main__ import PROGRAMS
from perago_servers.process import Server

FETCHED_FOR = {
    "lakefs": ("lakefs", "toxiproxy", "versitygw"),
    "conductor": ("conductor", "toxiproxy"),
    "spark": ("spark-jars",),
}
# The first test of a session also waits for its server.
TIMEOUT_SECONDS = 300
LOGS = Path("build") / "server-logs"


AnyServer = TypeVar("AnyServer", bound=Server)


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
    kind: type[AnyServer],
    start: Callable[[], AbstractContextManager[AnyServer]],
) -> Generator[AnyServer]:
    """Yield the server the environment names, else one of our own; keep logs of failures."""
    if (named := kind.given(name)) is not None:
        yield named
        return
    with start() as server:
        yield server
        if request.session.testsfailed and server.log is not None:
            place = request.config.rootpath / LOGS
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(server.log, place / f"{name}.log")


@pytest.fixture(scope="session")
def lakefs_server(request: pytest.FixtureRequest) -> Generator[LakefsServer]:
    """A lakeFS with a local block store."""
    with _for_session(request, "lakefs", LakefsServer, servers.lakefs_server) as server:
        yield server


@pytest.fixture(scope="session")
def lakefs_s3_server(request: pytest.FixtureRequest) -> Generator[LakefsServer]:
    """A lakeFS with an S3 block store: presigned URLs."""
    start = partial(servers.lakefs_server, flavour="s3")
    with _for_session(request, "lakefs-s3", LakefsServer, start) as server:
        yield server


@pytest.fixture(scope="session")
def conductor_server(request: pytest.FixtureRequest) -> Generator[ConductorServer]:
    """A Conductor without system workers."""
    with _for_session(request, "conductor", ConductorServer, servers.conductor_server) as server:
        yield server


@pytest.fixture(scope="session")
def conductor_workers_server(request: pytest.FixtureRequest) -> Generator[ConductorServer]:
    """A Conductor whose JOIN and DO_WHILE tasks move."""
    start = partial(servers.conductor_server, profile="workers")
    with _for_session(request, "conductor-workers", ConductorServer, start) as server:
        yield server


@pytest.fixture(scope="session")
def toxiproxy(request: pytest.FixtureRequest) -> Generator[ToxiproxyServer]:
    """A toxiproxy without proxies."""
    with _for_session(request, "toxiproxy", ToxiproxyServer, servers.toxiproxy_server) as server:
        yield server
