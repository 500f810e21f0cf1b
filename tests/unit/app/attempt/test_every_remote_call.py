"""A process that dies at any remote call of an attempt, under every policy.

Calls without an answer are in test_patience: they end no attempt.
"""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, at_each_request
from tests.unit.app.attempt.attempt_scene import assert_accepted

from perago.domain.policy import PolicySetting
from perago.testing.faults import ANY_CALL, Crash, Fault, Moment, Side, lose_answer, lose_request

pytestmark = pytest.mark.scale

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]
# An abandoned publication of lineage stays in the history below the one that supersedes it.
PUBLICATIONS_MAX = {
    PolicySetting.HEAD_PARENT: 1,
    PolicySetting.LINEAGE: 2,
    PolicySetting.SETTLED: 1,
}


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_death_at_any_call_ends_in_one_accepted_publication_and_spares_a_decision(
    tmp_path: Path,
    policy: PolicySetting,
    side: Side,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    after_decision = 0
    async for nth, harness in at_each_request(tmp_path, policy, changes=changes):
        await harness.attempt(harness.worker([Crash(Moment(ANY_CALL, side, nth=nth))]))
        decided = any(name.startswith("perago-settled-") for name in harness.repository.tags())
        await harness.finish()
        try:
            await assert_accepted(harness, publications_max=PUBLICATIONS_MAX[policy])
            assert harness.runs == 1 or not decided, "a decided task function ran again"
        except AssertionError as error:
            error.add_note(f"death {side} call {nth}; operations: {harness.requests()}")
            raise
        after_decision += decided
    assert (after_decision > 0) is (policy is PolicySetting.SETTLED)


@pytest.mark.parametrize("fault", [lose_answer("queue.poll"), lose_request("queue.poll")], ids=str)
async def test_a_poll_without_an_answer_loses_nothing(tmp_path: Path, fault: Fault) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    assert await harness.attempt(harness.worker([fault])) is None
    await harness.finish()
    await assert_accepted(harness)
