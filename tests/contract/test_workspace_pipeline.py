"""Laws of perago.ports.workspace: the public suite of the testing kit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.adapters import Factory, parameters
from tests.contract.pipelines import PIPELINES, PipelineHarness

from perago.testing.contract.workspace_pipeline import *
from perago.testing.contract.workspace_pipeline import Bench


@pytest.fixture(params=parameters(PIPELINES))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    factory: Factory[PipelineHarness] = request.param
    async with factory(request) as opened:
        repository = await opened.harness.create_repository()
        directory = tmp_path / "attempt"
        yield Bench(opened.harness, opened.pipeline, repository, directory, opened.unheard)
