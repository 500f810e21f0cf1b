"""lakeFS, Conductor or the block store is away for 20 s: one run of the function, one row."""

import pytest
from tests.integration.outages import Outage, survive_all
from tests.integration.worker_scene import WorkerScene

from perago.adapters.lakefs.configuration import RouteChoice

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(300)]
# One before the last step and one at it for each service. `tests/soak` has all moments.
IN_THE_GATE = [
    Outage("lakeFS", "while uploading", 20),
    Outage("lakeFS", "at the merge", 20),
    Outage("Conductor", "at its end", 20),
    Outage("Conductor", "at the completion", 20),
    Outage("block store", "while uploading", 20, RouteChoice.PRESIGNED),
    Outage("block store", "at the staged commit", 20, RouteChoice.API),
]


async def test_an_outage_of_twenty_seconds_costs_no_attempt(scene: WorkerScene) -> None:
    survived = await survive_all(scene, IN_THE_GATE)
    assert [each for each in survived if not each.cost_nothing] == []
    untold = [each for each in survived if each.outage.service == "lakeFS" and not each.waited]
    assert untold == [], "also while the client itself repeats an upload"
