"""The long form of the kill tests: ten times the attempts of the gate's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.operator_chaos import survive_operators
from tests.integration.worker_chaos import survive_kills, survive_stops
from tests.integration.worker_scene import WorkerScene, worker_scene
from tools.servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.timeout(3600),
]


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """Two real servers and a folder."""
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("seed", [1, 2])
async def test_four_hundred_attempts_survive_a_killer_of_executors_and_parents(
    scene: WorkerScene, seed: int
) -> None:
    await survive_kills(scene, count=400, parent_kills=10, seed=seed)


@pytest.mark.parametrize("seed", [1, 2])
async def test_workers_that_are_stopped_again_and_again_publish_nothing_twice(
    scene: WorkerScene, seed: int
) -> None:
    await survive_stops(scene, count=400, stops=10, seed=seed)


async def test_ten_minutes_of_kills_repeats_and_requeues_end_every_workflow_and_lose_no_slot(
    scene: WorkerScene,
) -> None:
    await survive_operators(scene, seconds=600, seed=1)
