"""The registry of workspace pipelines and transports: each with the lakeFS it moves objects of."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from tests.contract.adapters import Adapter, Factory, open_memory_lakefs

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import RetryTerms, RouteChoice
from perago.adapters.lakefs.installation import LakeFSCommits
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.memory.system import SequentialConcurrency
from perago.adapters.spark.workspace_pipeline import SizedPipeline
from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.pipeline import LocalCache, LocalWorkspacePipeline
from perago.ports.lakefs import Commits
from perago.ports.objects import Objects, ObjectTransport
from perago.ports.system import Concurrency
from perago.ports.workspace import WorkspacePipeline
from perago.testing.contract.cutting_proxy import cutting_proxy
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest
from perago.testing.contract.objects import Unheard
from perago.testing.contract.workspace_pipeline import UnheardPipeline
from perago.testing.fault_injector import FaultInjector, faulty_port
from perago.testing.faults import ANY_CALL, always, lose_answer


@dataclass(frozen=True, slots=True)
class TransportHarness:
    """A lakeFS, a way to move its objects, and how to do things side by side.

    `unheard` opens the same way for somebody who gets no answer from lakeFS any more.
    """

    harness: LakeFSUnderTest
    transport: ObjectTransport
    concurrency: Concurrency
    unheard: Callable[[], AbstractAsyncContextManager[Unheard]]


@dataclass(frozen=True, slots=True)
class PipelineHarness:
    """A lakeFS and a pipeline on it."""

    harness: LakeFSUnderTest
    pipeline: WorkspacePipeline
    unheard: Callable[[], AbstractAsyncContextManager[UnheardPipeline]]


def _over_port(harness: LakeFSUnderTest, concurrency: Concurrency) -> TransportHarness:
    @asynccontextmanager
    async def unheard() -> AsyncGenerator[Unheard]:
        faults = FaultInjector()
        objects = faulty_port(harness.objects, "objects", faults)
        commits = faulty_port(harness.commits, "commits", faults)
        lose = partial(faults.plan, always(lose_answer(ANY_CALL)))
        transport = MemoryTransport(objects, concurrency)
        yield Unheard(harness, objects, commits, transport, concurrency, lose)

    return TransportHarness(
        harness, MemoryTransport(harness.objects, concurrency), concurrency, unheard
    )


@asynccontextmanager
async def _in_memory(
    request: pytest.FixtureRequest, *, threads: bool = False
) -> AsyncGenerator[TransportHarness]:
    async with open_memory_lakefs(request) as harness:
        concurrency = AsyncioConcurrency() if threads else SequentialConcurrency()
        yield _over_port(harness, concurrency)
        if isinstance(concurrency, AsyncioConcurrency):
            concurrency.close()


@asynccontextmanager
async def _by_port(request: pytest.FixtureRequest) -> AsyncGenerator[TransportHarness]:
    # Imported on use: a run without servers must not load the vendor's client.
    from tests.contract.real_lakefs import open_real_lakefs  # noqa: PLC0415

    concurrency = AsyncioConcurrency()
    async with open_real_lakefs(request) as harness:
        yield _over_port(harness, concurrency)
    concurrency.close()


@asynccontextmanager
async def _by_http(
    request: pytest.FixtureRequest, *, server: str, route: RouteChoice
) -> AsyncGenerator[TransportHarness]:
    from tests.contract.real_lakefs import configuration_of, connected  # noqa: PLC0415

    named = request.getfixturevalue(server)
    configuration = replace(configuration_of(named), route=route)

    @asynccontextmanager
    async def unheard(harness: LakeFSUnderTest) -> AsyncGenerator[Unheard]:
        async with cutting_proxy(named.endpoint) as proxy:
            terms = RetryTerms(seconds_max=0.5)
            client = LakeFSClient(replace(configuration, endpoint_url=proxy.url, retry=terms))
            losing = LakeFSObjects(client)
            await losing.ask_for_route()  # a read: it says which way the bytes go
            commits = LakeFSCommits(client)
            yield Unheard(harness, losing, commits, losing, concurrency, proxy.cut)
            client.close()
        assert proxy.answers_lost

    concurrency = AsyncioConcurrency()
    client = LakeFSClient(configuration)
    transport = LakeFSObjects(client)
    async with connected(named) as harness:
        yield TransportHarness(harness, transport, concurrency, partial(unheard, harness))
    client.close()
    concurrency.close()


def _http(server: str, route: RouteChoice) -> Adapter[TransportHarness]:
    return Adapter(partial(_by_http, server=server, route=route), marker="lakefs")


TRANSPORTS: dict[str, Adapter[TransportHarness]] = {
    "memory, one by one": Adapter(_in_memory),
    "memory, side by side": Adapter(partial(_in_memory, threads=True)),
    "lakefs, objects port": Adapter(_by_port, marker="lakefs"),
    "lakefs, api": _http("lakefs_server", RouteChoice.API),
    "lakefs on s3, presigned": _http("lakefs_s3_server", RouteChoice.PRESIGNED),
    "lakefs on s3, auto": _http("lakefs_s3_server", RouteChoice.AUTO),
}


@asynccontextmanager
async def _local(
    request: pytest.FixtureRequest, *, transport: Factory[TransportHarness], cached: bool
) -> AsyncGenerator[PipelineHarness]:
    place: Path = request.getfixturevalue("tmp_path")
    async with transport(request) as moved:
        cache = LocalCache(place / "cache", "test") if cached else None
        pipeline = LocalWorkspacePipeline(
            moved.harness.objects, moved.harness.commits, moved.concurrency, moved.transport, cache
        )

        @asynccontextmanager
        async def unheard() -> AsyncGenerator[UnheardPipeline]:
            async with moved.unheard() as parts:
                losing = LocalWorkspacePipeline(
                    parts.objects, parts.commits, moved.concurrency, parts.transport, cache
                )
                yield UnheardPipeline(losing, parts.lose)

        yield PipelineHarness(moved.harness, pipeline, unheard)


PIPELINES: dict[str, Adapter[PipelineHarness]] = {
    f"{name}{', cached' if cached else ''}": Adapter(
        partial(_local, transport=adapter.factory, cached=cached), adapter.marker
    )
    for name, adapter in TRANSPORTS.items()
    for cached in (False, True)
    if not cached or adapter.marker is None or name == "lakefs, api"
}


@asynccontextmanager
async def _sized(request: pytest.FixtureRequest) -> AsyncGenerator[PipelineHarness]:
    """Every workspace of more than three objects is somebody else's."""
    async with _in_memory(request) as moved:

        def sized(objects: Objects, commits: Commits, transport: ObjectTransport) -> SizedPipeline:
            ports = objects, commits, moved.concurrency, transport
            local, large = LocalWorkspacePipeline(*ports), LocalWorkspacePipeline(*ports)
            return SizedPipeline(local, large, objects_max=3)

        @asynccontextmanager
        async def unheard() -> AsyncGenerator[UnheardPipeline]:
            async with moved.unheard() as parts:
                losing = sized(parts.objects, parts.commits, parts.transport)
                yield UnheardPipeline(losing, parts.lose)

        heard = sized(moved.harness.objects, moved.harness.commits, moved.transport)
        yield PipelineHarness(moved.harness, heard, unheard)


PIPELINES["memory, sized"] = Adapter(_sized)


@asynccontextmanager
async def _on_spark(request: pytest.FixtureRequest) -> AsyncGenerator[PipelineHarness]:
    # Imported on use: a run without Spark must not look for it.
    from tests.contract.spark_pipelines import open_spark_pipeline  # noqa: PLC0415

    async with open_spark_pipeline(request) as (harness, pipeline, unheard):
        yield PipelineHarness(harness, pipeline, unheard)


SPARK_PIPELINES: dict[str, Adapter[PipelineHarness]] = {
    "lakefs, spark": Adapter(_on_spark, marker="spark"),
}
