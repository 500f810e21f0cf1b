"""The Spark pipeline on a real lakeFS: executors are other processes, memory cannot be shared."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.contract.lakefs_under_test import LakeFSUnderTest
from tests.contract.real_lakefs import connected

from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace_pipeline import SparkWorkspacePipeline
from perago.adapters.system.host import AsyncioConcurrency
from perago.app.connections import LakeFSConnection
from perago.app.container import open_lakefs
from perago.app.pipeline_parts import open_part_work


@asynccontextmanager
async def open_spark_pipeline(
    request: pytest.FixtureRequest,
) -> AsyncGenerator[tuple[LakeFSUnderTest, SparkWorkspacePipeline]]:
    """The pipeline in the session of this run."""
    server = request.getfixturevalue("lakefs_server")
    place: Path = request.getfixturevalue("tmp_path")
    connection = LakeFSConnection(
        url=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    concurrency = AsyncioConcurrency()
    async with connected(server) as world:
        pipeline = SparkWorkspacePipeline(
            SparkConfiguration(),
            world.objects,
            partial(open_part_work, open_lakefs, connection),
            concurrency,
            state_root=place / "state",
        )
        yield world, pipeline
    concurrency.close()
