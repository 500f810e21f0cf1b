"""Every outage of 20 s, and six of 90 s: the function runs once, and one row is used."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.outages import MOMENTS, Outage, Service, survive_all
from tests.integration.worker_scene import WorkerScene, worker_scene
from tools.servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.soak,
    pytest.mark.timeout(600),
]
AT_ONCE = 6  # workers side by side; more of them are a busy machine and not an outage
SERVICES: tuple[Service, ...] = ("lakeFS", "Conductor")
LONG = [
    Outage("lakeFS", "while downloading", 90),
    Outage("lakeFS", "during the function", 90),
    Outage("lakeFS", "while uploading", 90),
    Outage("lakeFS", "at the merge", 90),
    Outage("Conductor", "at its end", 90),
    Outage("Conductor", "at the completion", 90),
]


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """Two real servers and a folder for workers."""
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("service", SERVICES)
async def test_an_outage_of_twenty_seconds_at_any_moment_costs_no_attempt(
    scene: WorkerScene, service: Service
) -> None:
    outages = [Outage(service, moment, 20) for moment in MOMENTS]
    for start in range(0, len(outages), AT_ONCE):
        survived = await survive_all(scene, outages[start : start + AT_ONCE])
        assert [each for each in survived if not each.cost_nothing] == []


async def test_an_outage_of_ninety_seconds_costs_no_attempt(scene: WorkerScene) -> None:
    survived = await survive_all(scene, LONG)
    assert [each for each in survived if not each.cost_nothing] == []
