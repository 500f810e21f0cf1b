"""One fixture per suite, parametrised over the registry of adapters."""

from collections.abc import AsyncIterator

import pytest
from tests.contract.adapters import CONDUCTOR, LAKEFS, Factory, parameters
from tests.contract.execution_key_scene import Application

from perago.testing.contract.conductor_under_test import ConductorScene, ConductorUnderTest
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest


@pytest.fixture(params=parameters(LAKEFS))
async def lakefs_under_test(request: pytest.FixtureRequest) -> AsyncIterator[LakeFSUnderTest]:
    """A lakeFS, in memory or real."""
    factory: Factory[LakeFSUnderTest] = request.param
    async with factory(request) as harness:
        yield harness


@pytest.fixture(params=parameters(CONDUCTOR))
async def conductor_under_test(request: pytest.FixtureRequest) -> AsyncIterator[ConductorUnderTest]:
    """A Conductor, in memory or real."""
    factory: Factory[ConductorUnderTest] = request.param
    async with factory(request) as harness:
        yield harness


@pytest.fixture
def application(conductor_under_test: ConductorUnderTest) -> Application:
    """What runs attempts on that Conductor and keeps the marks."""
    return Application(ConductorScene(conductor_under_test))
