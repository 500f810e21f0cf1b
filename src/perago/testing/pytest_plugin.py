"""The pytest plugin: fixtures on request, one option, nothing automatic.

Imports nothing of Perago before a test asks for a fixture. Opens no socket unless the option
`--perago-backend=real` is given.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from perago.adapters.memory.system import VirtualClock
    from perago.ports.installations import ConductorInstallation, LakeFSInstallation
    from perago.testing.environment import PeragoEnvironment
    from perago.testing.faults import Fault
    from perago.testing.servers import MemoryServers, Servers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--perago-backend`."""
    group = parser.getgroup("perago")
    group.addoption(
        "--perago-backend",
        choices=("memory", "real"),
        default="memory",
        help="where perago_env runs: in this process (default), or on the servers that "
        "PERAGO_TEST_LAKEFS_* and PERAGO_TEST_CONDUCTOR_ENDPOINT name",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Explain failures inside the contract suites as in a test module; name the marker."""
    pytest.register_assert_rewrite("perago.testing.contract")
    config.addinivalue_line(
        "markers", "perago(policy=..., fence=..., faults=[...]): how perago_env is set up"
    )


@pytest.fixture
def perago_servers(request: pytest.FixtureRequest) -> "Iterator[Servers]":
    """The servers of `perago_env`; override it to use servers of your own."""
    if request.config.getoption("--perago-backend") == "real":
        from perago.testing.remote_servers import servers_of_environment  # noqa: PLC0415 - lazy

        servers: Servers = servers_of_environment()
    else:
        from perago.testing.servers import MemoryServers  # noqa: PLC0415 - lazy

        servers = MemoryServers()
    yield servers
    servers.close()


@pytest.fixture
def perago_env(
    request: pytest.FixtureRequest, perago_servers: "Servers"
) -> "Iterator[PeragoEnvironment]":
    """lakeFS, Conductor and workers for one test; `@pytest.mark.perago(policy=...)` sets it up."""
    from perago.testing.environment import PeragoEnvironment  # noqa: PLC0415 - lazy

    options: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("perago"))):
        options |= marker.kwargs
    faults = options.pop("faults", ())
    make = cast("Callable[..., PeragoEnvironment]", PeragoEnvironment)
    with make(servers=perago_servers, **options) as environment:
        environment.plan(*cast("Iterable[Fault]", faults))
        yield environment


@pytest.fixture
def perago_memory() -> "Iterator[MemoryServers]":
    """An in-memory lakeFS and Conductor on one virtual clock, whatever the option says."""
    from perago.testing.servers import MemoryServers  # noqa: PLC0415 - lazy

    servers = MemoryServers()
    yield servers
    servers.close()


@pytest.fixture
def perago_lakefs(perago_memory: "MemoryServers") -> "LakeFSInstallation":
    """The ports of an in-memory lakeFS."""
    return perago_memory.lakefs


@pytest.fixture
def perago_conductor(perago_memory: "MemoryServers") -> "ConductorInstallation":
    """The ports of an in-memory Conductor."""
    return perago_memory.conductor


@pytest.fixture
def perago_clock(perago_memory: "MemoryServers") -> "VirtualClock":
    """The virtual clock of perago_lakefs and perago_conductor."""
    return perago_memory.virtual_clock


@pytest.fixture(scope="session")
def perago_spark() -> Iterator[Any]:
    """A local Spark session for the whole run, without a page; needs Java and perago[spark]."""
    from perago.adapters.spark.session import (  # noqa: PLC0415 - heavy, and few tests want it
        SparkConfiguration,
        process_session,
    )

    session = process_session(SparkConfiguration(), needs_s3a=False)
    yield session
    session.stop()
