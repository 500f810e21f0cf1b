"""lakeFS or Conductor is away for 20 s: the function runs once, and one row is used."""

import pytest
from tests.integration.outages import Outage, survive_all
from tests.integration.worker_scene import WorkerScene

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(300)]
# Each of them cost an attempt or a run of the function before. `tests/soak` has the other ones.
IN_THE_GATE = [
    Outage("lakeFS", "at its end", 20),
    Outage("lakeFS", "while uploading", 20),
    Outage("lakeFS", "at the staged commit", 20),
    Outage("lakeFS", "at the merge", 20),
    Outage("Conductor", "at its end", 20),
    Outage("Conductor", "at the completion", 20),
]


async def test_an_outage_of_twenty_seconds_costs_no_attempt(scene: WorkerScene) -> None:
    survived = await survive_all(scene, IN_THE_GATE)
    assert [each for each in survived if not each.cost_nothing] == []
