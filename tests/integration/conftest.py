"""Connections to the session's real servers, for tests that look at whole attempts."""

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected
from tools.servers import ConductorServer, LakefsServer

from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.ports.installations import ConductorInstallation


@pytest_asyncio.fixture
async def conductor(conductor_server: ConductorServer) -> AsyncIterator[ConductorInstallation]:
    """The real Conductor."""
    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    installation = open_conductor(settings)
    yield installation
    await installation.close()


@pytest_asyncio.fixture
async def lakefs(lakefs_server: LakefsServer) -> AsyncIterator[RealLakeFS]:
    """The real lakeFS with its set-up verbs."""
    async with connected(lakefs_server) as world:
        yield world
