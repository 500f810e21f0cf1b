"""Every remote call of an attempt, struck in every way, under every policy."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld, assert_accepted

from perago.domain.policy import PolicySetting
from perago.testing.faults import ANY_CALL, Fault, crash, lose_answer, lose_request

pytestmark = pytest.mark.scale

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]
# An abandoned publication of lineage stays in the history below the one that supersedes it.
PUBLICATIONS_MAX = {
    PolicySetting.HEAD_PARENT: 1,
    PolicySetting.LINEAGE: 2,
    PolicySetting.SETTLED: 1,
}
STRIKES: Mapping[str, Callable[[int], Fault]] = {
    "CrashBefore": lambda nth: crash(before=ANY_CALL, nth=nth),
    "CrashAfter": lambda nth: crash(after=ANY_CALL, nth=nth),
    "LoseAnswer": lambda nth: lose_answer(ANY_CALL, nth=nth),
    "LoseRequest": lambda nth: lose_request(ANY_CALL, nth=nth),
}


async def _calls_of_a_healthy_attempt(world: FaultWorld) -> int:
    await world.start()
    report = await world.attempt(world.worker())
    assert report is not None
    assert report.error is None
    await assert_accepted(world)
    return world.workers[0].calls.total()


@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_attempt_struck_at_any_call_ends_in_one_accepted_publication(
    tmp_path: Path,
    policy: PolicySetting,
    strike: str,
    changes: bool,  # noqa: FBT001 - a row of the table
) -> None:
    calls = await _calls_of_a_healthy_attempt(
        FaultWorld(tmp_path / "healthy", policy, changes=changes)
    )
    for nth in range(1, calls + 1):
        world = FaultWorld(tmp_path / str(nth), policy, changes=changes)
        await world.start()
        await world.attempt(world.worker([STRIKES[strike](nth)]))
        await world.finish()
        try:
            await assert_accepted(world, publications_max=PUBLICATIONS_MAX[policy])
        except AssertionError as error:
            struck = list(world.workers[0].calls)
            error.add_note(f"{strike} at call {nth}; operations so far: {struck}")
            raise


@pytest.mark.parametrize("strike", STRIKES)
async def test_after_the_decision_the_body_never_runs_again(tmp_path: Path, strike: str) -> None:
    healthy = FaultWorld(tmp_path / "healthy", PolicySetting.SETTLED)
    calls = await _calls_of_a_healthy_attempt(healthy)
    after_decision = 0
    for nth in range(1, calls + 1):
        world = FaultWorld(tmp_path / str(nth), PolicySetting.SETTLED)
        await world.start()
        await world.attempt(world.worker([STRIKES[strike](nth)]))
        decided = any(name.startswith("perago-settled-") for name in world.repository.tags())
        await world.finish()
        await assert_accepted(world)
        if decided:
            after_decision += 1
            assert world.runs == 1, f"{strike} at call {nth}"
    assert after_decision > 0
