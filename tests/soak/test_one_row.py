"""The long form of the chaos that may cost no row: ten minutes."""

import random
from pathlib import Path

import pytest
from tests.histories.recorded_scene import judged_scene
from tests.histories.recording import Network
from tests.integration.row_chaos import survive_everything

from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.timeout(1800),
]


SECONDS, SEED = 600, 7


async def test_ten_minutes_of_killed_and_drained_workers_and_outages_cost_no_row_and_no_fork(
    lakefs_server: LakefsServer, conductor_workers_server: ConductorServer, tmp_path: Path
) -> None:
    servers = (lakefs_server, conductor_workers_server)
    network = Network(0.001, 0.001, random.Random(SEED))  # noqa: S311 - a schedule, no secret
    async with judged_scene("rows", servers, tmp_path, network) as recorded:
        report = await survive_everything(
            recorded.scene, seconds=SECONDS, seed=SEED, keep=recorded.keep_flow, heal=network.heal
        )
    assert not report.extra, report
    assert not report.again, report
    outages = {"outage of lakeFS", "outage of Conductor"}
    assert {"kill", "drain", *outages} < set(report.done), report
