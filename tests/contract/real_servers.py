"""The real servers themselves, as the suite of `Server` sees them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.contract.real_lakefs import configuration_of

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.adapters.lakefs.installation import open_lakefs
from perago.ports.installations import ConductorInstallation, LakeFSInstallation, Server
from perago_servers import ConductorServer, LakefsServer


@asynccontextmanager
async def open_server(kind: str, request: pytest.FixtureRequest) -> AsyncGenerator[Server]:
    """One of the servers of the session."""
    opened: LakeFSInstallation | ConductorInstallation
    if kind == "lakefs":
        lakefs: LakefsServer = request.getfixturevalue("lakefs_server")
        opened = open_lakefs(configuration_of(lakefs))
    else:
        conductor: ConductorServer = request.getfixturevalue("conductor_server")
        opened = open_conductor(ConductorSettings(conductor.api_url))
    assert opened.server is not None
    try:
        yield opened.server
    finally:
        await opened.close()
