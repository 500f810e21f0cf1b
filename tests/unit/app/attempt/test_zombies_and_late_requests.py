"""Attempts that come back, and requests that arrive when nobody waits for them any more."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import assert_accepted, at_each_request

from perago.domain.policy import PolicySetting
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import ANY_CALL, arrive_late, zombie

pytestmark = pytest.mark.scale
SETTLED = PolicySetting.SETTLED


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
async def test_a_request_that_lands_after_the_end_changes_nothing_accepted(
    tmp_path: Path,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    async for nth, world in at_each_request(tmp_path, SETTLED, first=2, changes=changes):
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
    async for nth, world in at_each_request(tmp_path, SETTLED, first=2, changes=changes):
        sleeping = await world.stand_still(world.worker([zombie(before=ANY_CALL, nth=nth)]))
        await world.lose_lease()
        await world.finish()
        await assert_accepted(world)
        accepted = world.repository.head().commit
        world.workers[0].release()
        try:
            await world.drive(sleeping)
        except ProcessDied:
            pytest.fail("a zombie is not dead")
        assert world.repository.head().commit == accepted, f"asleep before call {nth}"
        await assert_accepted(world)
