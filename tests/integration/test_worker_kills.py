"""The short form of the kill tests; the long one is in tests/soak."""

import pytest
from tests.integration.operator_chaos import survive_operators
from tests.integration.worker_chaos import survive_kills, survive_stops
from tests.integration.worker_scene import WorkerScene

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(400)]


async def test_forty_attempts_survive_a_killer_of_executors_and_parents(
    scene: WorkerScene,
) -> None:
    await survive_kills(scene, count=40, parent_kills=10, seed=7)


async def test_a_worker_that_was_stopped_longer_than_its_leases_publishes_nothing_twice(
    scene: WorkerScene,
) -> None:
    await survive_stops(scene, count=40, stops=5, seed=7)


async def test_a_minute_of_kills_repeats_and_requeues_ends_every_workflow_and_loses_no_slot(
    scene: WorkerScene,
) -> None:
    done = await survive_operators(scene, seconds=60, seed=7)
    assert {"restart", "rerun", "retry", "requeue", "release", "kill"} <= set(done), done
