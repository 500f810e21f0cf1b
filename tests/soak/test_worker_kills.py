"""The long form of the kill tests: ten times the attempts of the gate's. Each keeps its history."""

import random
from pathlib import Path

import pytest
from tests.histories.recorded_scene import judged_scene
from tests.histories.recording import Network
from tests.integration.operator_chaos import LOST, UNANSWERED, survive_operators
from tests.integration.worker_chaos import survive_kills, survive_stops

from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.timeout(3600),
]

SECONDS = 1800.0


@pytest.fixture
def servers(
    lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> tuple[LakefsServer, ConductorServer]:
    """Two real servers."""
    return lakefs_server, conductor_server


@pytest.mark.parametrize("seed", [1, 2])
async def test_four_hundred_attempts_survive_a_killer_of_executors_and_parents(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path, seed: int
) -> None:
    async with judged_scene("kills", servers, tmp_path) as recorded:
        await survive_kills(
            recorded.scene, count=400, parent_kills=10, seed=seed, keep=recorded.keep
        )


@pytest.mark.parametrize("seed", [1, 2])
async def test_workers_that_are_stopped_again_and_again_publish_nothing_twice(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path, seed: int
) -> None:
    async with judged_scene("stops", servers, tmp_path) as recorded:
        await survive_stops(recorded.scene, count=400, stops=10, seed=seed, keep=recorded.keep)


async def test_thirty_minutes_of_kills_repeats_and_lost_answers_leave_a_history_without_fault(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    network = Network(loses_answer=0.005, lets_go=0.005, chance=random.Random(1))  # noqa: S311
    async with judged_scene("operators", servers, tmp_path, network) as recorded:
        done = await survive_operators(
            recorded.scene,
            seconds=SECONDS,
            seed=1,
            keep=recorded.keep,
            explained=LOST + UNANSWERED,
            heal=network.heal,
        )
    assert {"restart", "rerun", "retry", "requeue", "release", "kill"} <= set(done), done
