"""The short form of the kill tests; the long one is in tests/soak. Each keeps its history."""

from pathlib import Path

import pytest
from tests.histories.recorded_scene import judged_scene
from tests.integration.operator_chaos import survive_operators
from tests.integration.worker_chaos import survive_kills, survive_stops

from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(400)]


@pytest.fixture
def servers(
    lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> tuple[LakefsServer, ConductorServer]:
    """Two real servers."""
    return lakefs_server, conductor_server


async def test_forty_attempts_survive_a_killer_of_executors_and_parents(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    async with judged_scene("kills", servers, tmp_path) as recorded:
        await survive_kills(recorded.scene, count=40, parent_kills=10, seed=7, keep=recorded.keep)


async def test_a_worker_that_was_stopped_longer_than_its_leases_publishes_nothing_twice(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    async with judged_scene("stops", servers, tmp_path) as recorded:
        await survive_stops(recorded.scene, count=40, stops=5, seed=7, keep=recorded.keep)


async def test_a_minute_of_kills_repeats_and_requeues_ends_every_workflow_and_loses_no_slot(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    async with judged_scene("operators", servers, tmp_path) as recorded:
        done = await survive_operators(recorded.scene, seconds=60, seed=7, keep=recorded.keep)
    assert {"restart", "rerun", "retry", "requeue", "release", "kill"} <= set(done), done
