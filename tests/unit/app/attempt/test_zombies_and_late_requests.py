"""Attempts that come back, and requests that arrive when nobody waits for them any more."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import at_each_request
from tests.unit.app.attempt.attempt_scene import assert_accepted

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
    async for nth, harness in at_each_request(tmp_path, SETTLED, first=2, changes=changes):
        await harness.attempt(harness.worker([arrive_late(ANY_CALL, nth=nth)]))
        await harness.finish()
        await assert_accepted(harness)
        accepted = harness.repository.head().commit
        while harness.workers[0].late:
            await harness.workers[0].arrive_late()
        assert harness.repository.head().commit == accepted, f"call {nth} landed late"
        await assert_accepted(harness)


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
async def test_an_attempt_that_wakes_up_after_its_successor_was_accepted_publishes_nothing(
    tmp_path: Path,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    async for nth, harness in at_each_request(tmp_path, SETTLED, first=2, changes=changes):
        sleeping = await harness.stand_still(harness.worker([zombie(before=ANY_CALL, nth=nth)]))
        await harness.lose_lease()
        await harness.finish()
        await assert_accepted(harness)
        accepted = harness.repository.head().commit
        harness.workers[0].release()
        try:
            await harness.drive(sleeping)
        except ProcessDied:
            pytest.fail("a zombie is not dead")
        assert harness.repository.head().commit == accepted, f"asleep before call {nth}"
        await assert_accepted(harness)
