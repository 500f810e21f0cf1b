"""One row for each task, whatever workers and services do. The long form is in tests/soak."""

import random
from pathlib import Path

import pytest
from tests.histories.recorded_scene import judged_scene
from tests.histories.recording import Network
from tests.integration.row_chaos import survive_everything

from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(500)]
SECONDS, SEED = 25, 1


async def test_killed_and_drained_workers_and_outages_cost_no_row_and_no_fork(
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
    assert {"kill", "drain"} < set(report.done), report
    assert any(what.startswith("outage") for what in report.done), report
