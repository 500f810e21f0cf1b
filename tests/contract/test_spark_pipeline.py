"""Laws of perago.ports.workspace for the pipeline as Spark jobs, on a real lakeFS."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.adapters import Factory, parameters
from tests.contract.pipelines import SPARK_PIPELINES, PipelineHarness

from perago.testing.contract.workspace_pipeline import *
from perago.testing.contract.workspace_pipeline import Bench

pytestmark = [pytest.mark.spark, pytest.mark.lakefs]


@pytest_asyncio.fixture(params=parameters(SPARK_PIPELINES))
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, spark_session: object, any_master: None
) -> AsyncIterator[Bench]:
    del spark_session, any_master  # it is the one that the pipeline finds
    factory: Factory[PipelineHarness] = request.param
    async with factory(request) as opened:
        repository = await opened.harness.create_repository()
        directory = tmp_path / "attempt"
        yield Bench(opened.harness, opened.pipeline, repository, directory, opened.unheard)
