"""Every outage of 20 s, and six of 90 s: the function runs once, and one row is used."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.outages import MOMENTS, Outage, survive_all
from tests.integration.worker_scene import WorkerScene, worker_scene

from perago.adapters.lakefs.configuration import RouteChoice
from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.soak,
    pytest.mark.timeout(600),
]
# Side by side, because most of their time is waiting; more of them are a busy machine, not an
# outage.
HALVES = MOMENTS[:4], MOMENTS[4:]
TWENTY: dict[str, Sequence[Outage]] = {
    f"{service} {half[0]} to {half[-1]}": [
        Outage(
            service, moment, 20, RouteChoice.API if service == "block store" else RouteChoice.AUTO
        )
        for moment in half
    ]
    for service in ("lakeFS", "Conductor", "block store")
    for half in HALVES
}
# The other ways of the bytes, where they differ.
TWENTY["block store, past lakeFS"] = [
    Outage("block store", moment, 20, route)
    for moment in ("while downloading", "while uploading")
    for route in (RouteChoice.PRESIGNED, RouteChoice.AUTO)
]
# Requests that arrive nowhere, or whose answers do, as behind a firewall that drops packets.
TWENTY["silent"] = [
    Outage("lakeFS", "at its end", 20, silent=True),
    Outage("lakeFS", "at the merge", 20, silent=True),
    Outage("Conductor", "at its end", 20, silent=True),
    Outage("Conductor", "at the completion", 20, silent=True),
    Outage("block store", "while uploading", 20, RouteChoice.PRESIGNED, silent=True),
    Outage("block store", "at the staged commit", 20, RouteChoice.API, silent=True),
]
NINETY: dict[str, Sequence[Outage]] = {
    "before and in the function": [
        Outage("lakeFS", "while downloading", 90),
        Outage("Conductor", "during the function", 90),
        Outage("block store", "while downloading", 90, RouteChoice.PRESIGNED),
    ],
    "after it": [
        Outage("lakeFS", "at the merge", 90),
        Outage("Conductor", "at the completion", 90),
        Outage("block store", "at the staged commit", 90, RouteChoice.API),
    ],
}


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """Two real servers and a folder for workers."""
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    "outages", [*TWENTY.values(), *NINETY.values()], ids=[*TWENTY, *(f"90 s {n}" for n in NINETY)]
)
async def test_an_outage_at_any_moment_costs_no_attempt(
    scene: WorkerScene, outages: Sequence[Outage]
) -> None:
    survived = await survive_all(scene, outages)
    assert [each for each in survived if not each.cost_nothing] == []
