"""Attempts that come back, and requests that arrive when nobody waits for them any more."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import RESPONSE_SECONDS, FaultWorld, assert_accepted

from perago.adapters.memory.worker_handle import ANY, Hold, Pause, When, WorkerDied
from perago.domain.policy import PolicySetting

pytestmark = pytest.mark.scale


async def _calls(tmp_path: Path) -> int:
    world = FaultWorld(tmp_path / "healthy", PolicySetting.SETTLED)
    await world.start()
    await world.attempt(world.worker())
    return world.workers[0].calls[ANY]


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
async def test_a_request_that_lands_after_the_end_changes_nothing_accepted(
    tmp_path: Path,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    for nth in range(2, await _calls(tmp_path) + 1):
        world = FaultWorld(tmp_path / str(nth), PolicySetting.SETTLED, changes=changes)
        await world.start()
        await world.attempt(world.worker([Hold(ANY, nth)]))
        await world.finish()
        await assert_accepted(world)
        accepted = world.repository.head().commit
        while world.workers[0].wire:
            world.workers[0].release()
        assert world.repository.head().commit == accepted, f"call {nth} landed late"
        await assert_accepted(world)


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
async def test_an_attempt_that_wakes_up_after_its_successor_was_accepted_publishes_nothing(
    tmp_path: Path,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    for nth in range(2, await _calls(tmp_path) + 1):
        world = FaultWorld(tmp_path / str(nth), PolicySetting.SETTLED, changes=changes)
        await world.start()
        zombie = world.worker([Pause(ANY, When.BEFORE_EFFECT, nth)])
        handle = world.workers[0]
        record = await zombie.poll("edit")
        assert record is not None
        sleeping = asyncio.ensure_future(zombie.run(record))
        while not (handle.paused or sleeping.done()):  # noqa: ASYNC110 - driven by hand
            await asyncio.sleep(0)
        world.clock.advance(RESPONSE_SECONDS + 1)
        await world.operator.workflows.decide(world.workflow)
        await world.finish()
        await assert_accepted(world)
        accepted = world.repository.head().commit
        handle.resume()
        try:
            await world.drive(sleeping)
        except WorkerDied:
            pytest.fail("a zombie is not dead")
        assert world.repository.head().commit == accepted, f"asleep before call {nth}"
        await assert_accepted(world)
