"""Attempts that come back, and requests that arrive when nobody waits for them any more."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import RESPONSE_SECONDS, FaultWorld, assert_accepted

from perago.domain.policy import PolicySetting
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import ANY_CALL, arrive_late, zombie

pytestmark = pytest.mark.scale


async def _calls(tmp_path: Path) -> int:
    world = FaultWorld(tmp_path / "healthy", PolicySetting.SETTLED)
    await world.start()
    await world.attempt(world.worker())
    return world.workers[0].calls.total()


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
async def test_a_request_that_lands_after_the_end_changes_nothing_accepted(
    tmp_path: Path,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    for nth in range(2, await _calls(tmp_path) + 1):
        world = FaultWorld(tmp_path / str(nth), PolicySetting.SETTLED, changes=changes)
        await world.start()
        await world.attempt(world.worker([arrive_late(ANY_CALL, nth=nth)]))
        await world.finish()
        await assert_accepted(world)
        accepted = world.repository.head().commit
        while world.workers[0].late:
            await world.workers[0].arrive_late()
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
        sleeper = world.worker([zombie(before=ANY_CALL, nth=nth)])
        handle = world.workers[0]
        record = await sleeper.poll("edit")
        assert record is not None
        sleeping = asyncio.ensure_future(sleeper.run(record))
        while not (handle.waits_for or sleeping.done()):  # noqa: ASYNC110 - driven by hand
            await asyncio.sleep(0)
        world.clock.advance(RESPONSE_SECONDS + 1)
        await world.operator.workflows.decide(world.workflow)
        await world.finish()
        await assert_accepted(world)
        accepted = world.repository.head().commit
        handle.release()
        try:
            await world.drive(sleeping)
        except ProcessDied:
            pytest.fail("a zombie is not dead")
        assert world.repository.head().commit == accepted, f"asleep before call {nth}"
        await assert_accepted(world)
