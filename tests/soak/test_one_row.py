"""The long form of the chaos that may cost no row: ten minutes."""

import random
from pathlib import Path

import pytest
from tests.histories.recorded_scene import judged_scene
from tests.histories.recording import Network
from tests.integration.outages import lakefs_on_a_store
from tests.integration.row_chaos import survive_everything

from perago_servers import ConductorServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.timeout(1800),
]


SECONDS, SEED = 600, 7
GIVEN_UP_MAX = 3
ROOTLESS_MAX = 6


async def test_ten_minutes_of_killed_and_drained_workers_and_outages_cost_no_row_and_no_fork(
    conductor_workers_server: ConductorServer, tmp_path: Path
) -> None:
    network = Network(0.001, 0.001, random.Random(SEED))  # noqa: S311 - a schedule, no secret
    async with lakefs_on_a_store() as (lakefs, store):
        servers = (lakefs, conductor_workers_server)
        async with judged_scene("rows", servers, tmp_path, network) as recorded:
            report = await survive_everything(
                recorded.scene,
                seconds=SECONDS,
                seed=SEED,
                keep=recorded.keep_flow,
                heal=network.heal,
                store=store,
            )
    # Of 500 tasks one or none is met by six strikes in a row. More would be a defect.
    assert len(report.given_up) <= GIVEN_UP_MAX, report
    # A machine on which no worker starts for a minute has more of them than this.
    assert len(report.rootless) <= ROOTLESS_MAX, report
    assert not report.extra, report
    assert not report.again, report
    outages = {"outage of lakeFS", "outage of Conductor", "outage of block store"}
    assert {"kill", "drain", *outages} < set(report.done), report
