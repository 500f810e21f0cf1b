"""The Spark pipeline on a real lakeFS: executors are other processes, memory cannot be shared."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.contract.real_lakefs import connected

from perago.adapters.lakefs.configuration import RetryTerms
from perago.adapters.lakefs.installation import open_lakefs as open_lakefs_at
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace_pipeline import SparkWorkspacePipeline
from perago.adapters.system import AsyncioConcurrency
from perago.app.connections import LakeFSConnection
from perago.app.container import open_lakefs
from perago.app.pipeline_parts import lakefs_configuration, open_part_work
from perago.ports.installations import LakeFSInstallation
from perago.testing.contract.cutting_proxy import cutting_proxy
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest
from perago.testing.contract.workspace_pipeline import UnheardPipeline


@asynccontextmanager
async def open_spark_pipeline(
    request: pytest.FixtureRequest,
) -> AsyncGenerator[
    tuple[
        LakeFSUnderTest,
        SparkWorkspacePipeline,
        Callable[[], AbstractAsyncContextManager[UnheardPipeline]],
    ]
]:
    """The pipeline in the session of this run, and how to open one that loses its answers."""
    server = request.getfixturevalue("lakefs_server")
    place: Path = request.getfixturevalue("tmp_path")
    connection = LakeFSConnection(
        url=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    concurrency = AsyncioConcurrency()
    async with connected(server) as harness:
        pipeline = SparkWorkspacePipeline(
            SparkConfiguration(),
            harness.objects,
            partial(open_part_work, open_lakefs, connection),
            concurrency,
            state_root=place / "state",
        )

        @asynccontextmanager
        async def unheard() -> AsyncGenerator[UnheardPipeline]:
            # Defined here, so that it travels whole: executors do not have the tests.
            def impatient(connection: LakeFSConnection) -> LakeFSInstallation:
                terms = RetryTerms(seconds_max=0.5)
                return open_lakefs_at(replace(lakefs_configuration(connection), retry=terms))

            async with cutting_proxy(server.endpoint) as proxy:
                past_proxy = replace(connection, url=proxy.url)
                losing = SparkWorkspacePipeline(
                    SparkConfiguration(),
                    harness.objects,
                    partial(open_part_work, impatient, past_proxy),
                    concurrency,
                    state_root=place / "unheard",
                )
                yield UnheardPipeline(losing, proxy.cut)
            assert proxy.answers_lost

        yield harness, pipeline, unheard
    concurrency.close()
