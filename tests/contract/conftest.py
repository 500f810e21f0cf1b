"""One fixture per suite, parametrised over the registry of adapters."""

from collections.abc import AsyncIterator

import pytest
from tests.contract.adapters import CONDUCTOR, LAKEFS, Factory, parameters
from tests.contract.execution_key_scene import Application
from tests.contract.lakefs_world import LakeFSWorld

from perago.testing.contract.conductor_world import ConductorWorld


@pytest.fixture(params=parameters(LAKEFS))
async def lakefs_world(request: pytest.FixtureRequest) -> AsyncIterator[LakeFSWorld]:
    """A lakeFS, in memory or real."""
    factory: Factory[LakeFSWorld] = request.param
    async with factory(request) as world:
        yield world


@pytest.fixture(params=parameters(CONDUCTOR))
async def conductor_world(request: pytest.FixtureRequest) -> AsyncIterator[ConductorWorld]:
    """A Conductor, in memory or real."""
    factory: Factory[ConductorWorld] = request.param
    async with factory(request) as world:
        yield world


@pytest.fixture
def application(conductor_world: ConductorWorld) -> Application:
    """What runs attempts on that Conductor and keeps the marks."""
    return Application(conductor_world)
