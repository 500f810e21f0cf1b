"""Laws of perago.ports.installations.Server."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.contract.adapters import SERVERS, Factory, parameters

from perago.ports.installations import Server


@pytest.fixture(params=parameters(SERVERS))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """A lakeFS or a Conductor, in memory or real."""
    factory: Factory[Server] = request.param
    async with factory(request) as opened:
        yield opened


async def test_V1_greeting_tells_the_servers_time(server: Server) -> None:
    first, second = await server.greet(), await server.greet()
    assert first is not None
    assert second is not None
    assert first.utcoffset() == timedelta(0)
    assert first <= second


async def test_V2_facts_name_a_version(server: Server) -> None:
    assert (await server.facts()).version
