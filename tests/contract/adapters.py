"""The registry: for each contract suite, the adapters that must pass it, by name.

One dictionary per suite: name -> (factory, marker). An adapter without a marker runs everywhere; a
marked one needs its server, and a marked run whose server does not come up fails.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import WorkerHandle
from perago.ports.installations import Server
from perago.testing.contract.conductor_under_test import (
    ConductorUnderTest,
    MemoryConductorUnderTest,
)
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest, MemoryLakeFSUnderTest

Harness = TypeVar("Harness")
Factory: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Harness]]


@dataclass(frozen=True, slots=True)
class Adapter(Generic[Harness]):
    """How to open one harness for one test, and the marker of the server it needs."""

    factory: Factory[Harness]
    marker: str | None = None


def parameters(registry: Mapping[str, Adapter[Harness]]) -> list[ParameterSet]:
    """The registry as fixture parameters, each with its name and marker."""
    return [
        pytest.param(
            adapter.factory,
            id=name,
            marks=() if adapter.marker is None else (getattr(pytest.mark, adapter.marker),),
        )
        for name, adapter in registry.items()
    ]


@asynccontextmanager
async def open_memory_lakefs(_request: pytest.FixtureRequest) -> AsyncGenerator[LakeFSUnderTest]:
    """A lakeFS of its own for each test; nothing is left behind."""
    lakefs = MemoryLakeFS()
    yield MemoryLakeFSUnderTest(lakefs, lakefs_installation(lakefs, WorkerHandle()))


def _open_real_lakefs(
    request: pytest.FixtureRequest,
) -> AbstractAsyncContextManager[LakeFSUnderTest]:
    # Imported on use: a run without servers must not load the vendor's client.
    from tests.contract.real_lakefs import open_real_lakefs  # noqa: PLC0415

    return open_real_lakefs(request)


LAKEFS: dict[str, Adapter[LakeFSUnderTest]] = {
    "memory": Adapter(open_memory_lakefs),
    "lakefs": Adapter(_open_real_lakefs, marker="lakefs"),
}


@asynccontextmanager
async def _open_memory_conductor(
    _request: pytest.FixtureRequest,
) -> AsyncGenerator[ConductorUnderTest]:
    yield MemoryConductorUnderTest()


def _open_real_conductor(
    request: pytest.FixtureRequest,
) -> AbstractAsyncContextManager[ConductorUnderTest]:
    from tests.contract.real_conductor import open_real_conductor  # noqa: PLC0415

    return open_real_conductor(request)


CONDUCTOR: dict[str, Adapter[ConductorUnderTest]] = {
    "memory": Adapter(_open_memory_conductor),
    "conductor": Adapter(_open_real_conductor, marker="conductor"),
}


@asynccontextmanager
async def _open_memory_servers(kind: str) -> AsyncGenerator[Server | None]:
    if kind == "lakefs":
        yield lakefs_installation(MemoryLakeFS(), WorkerHandle()).server
    else:
        yield conductor_installation(MemoryConductor(), WorkerHandle()).server


@asynccontextmanager
async def _open_real_server(kind: str, request: pytest.FixtureRequest) -> AsyncGenerator[Server]:
    from tests.contract.real_servers import open_server  # noqa: PLC0415

    async with open_server(kind, request) as server:
        yield server


SERVERS: dict[str, Adapter[Server | None]] = {
    "memory-lakefs": Adapter(lambda _: _open_memory_servers("lakefs")),
    "memory-conductor": Adapter(lambda _: _open_memory_servers("conductor")),
    "lakefs": Adapter(partial(_open_real_server, "lakefs"), marker="lakefs"),
    "conductor": Adapter(partial(_open_real_server, "conductor"), marker="conductor"),
}
