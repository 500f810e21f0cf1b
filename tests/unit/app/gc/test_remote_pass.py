"""A crash at any call leaves only litter that a pass finds, and no pass disturbs what runs."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld, assert_accepted, at_each_request
from tests.unit.app.gc.gc_scene import AT_ONCE, collect, litter

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.domain.policy import PolicySetting
from perago.ports.errors import RepositoryMissingError, UnavailableError
from perago.testing.faults import ANY_CALL, Fault, crash, meanwhile, refuse

DOWN = UnavailableError("down for a moment")
pytestmark = pytest.mark.scale
POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_death_after_any_call_leaves_only_what_a_pass_finds(
    tmp_path: Path, policy: PolicySetting
) -> None:
    littered = 0
    async for nth, world in at_each_request(tmp_path, policy):
        await world.attempt(world.worker([crash(after=ANY_CALL, nth=nth)]))
        await world.finish()
        littered += bool(litter(world))
        before = litter(world)
        shown = await collect(world, dry_run=True)
        assert litter(world) == before, "a dry run removes nothing"
        removed = await collect(world)
        assert [each.error for each in removed if each.error] == []
        assert litter(world) == [], f"death after call {nth}"
        assert {(each.kind, each.name) for each in shown if each.removed} == {
            (each.kind, each.name) for each in removed if each.removed
        }
        await assert_accepted(world, publications_max=2)
    assert littered > 0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_pass_between_a_death_and_its_retry_disturbs_nothing(
    tmp_path: Path, policy: PolicySetting
) -> None:
    async for nth, world in at_each_request(tmp_path, policy):
        await world.attempt(world.worker([crash(after=ANY_CALL, nth=nth)]))
        await collect(world)
        runs = world.runs
        decided = any(name.startswith("perago-settled-") for name in litter(world))
        await world.finish()
        await assert_accepted(world, publications_max=2)
        assert world.runs == runs or not decided, "a decision outlives a pass while its task runs"


NOBODY = "8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"
OTHER = "9f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"
DECISION = f"perago-settled-{NOBODY}-{'a' * 32}-{'b' * 32}"
MARK = f"perago-attempt-{OTHER}-{'a' * 32}-{'b' * 32}-1767225600000"


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (refuse("tags.list_page", DOWN), {DECISION}),
        (refuse("branches.list_page", DOWN), {"perago-staging-of-nobody"}),
        (refuse("tags.list_page", DOWN, nth=2), {MARK}),
        (refuse("tags.list_page", DOWN, nth=3), {"perago-relocated-x"}),
        (refuse("branches.list_page", DOWN, nth=2), {"perago-canary-x"}),
        (refuse("branches.head", DOWN), {"perago-staging-of-nobody"}),
        (refuse("branches.delete", DOWN), {"perago-canary-x"}),
        (refuse("tags.delete", DOWN), {"perago-relocated-x"}),
    ],
    ids=[
        "decisions",
        "branches",
        "marks",
        "relocated",
        "canaries",
        "one head",
        "one branch",
        "one tag",
    ],
)
async def test_one_failure_never_stops_a_pass(tmp_path: Path, fault: Fault, left: set[str]) -> None:
    """What cannot be listed is left, and what it may hold; the rest goes."""
    world = FaultWorld(tmp_path, PolicySetting.SETTLED)
    for branch in ("perago-staging-of-nobody", "perago-canary-x"):
        world.repository.branch(branch)
    for tag in ("perago-relocated-x", DECISION, MARK):
        world.repository.tag(tag, "main")
    judged = await collect(world, faults=[fault])
    assert set(litter(world)) == left
    (error,) = [each.error for each in judged if each.error]
    assert "down for a moment" in error


async def test_a_repository_that_is_not_there_is_an_error_of_the_whole_pass(
    tmp_path: Path,
) -> None:
    world = FaultWorld(tmp_path, PolicySetting.SETTLED)
    with pytest.raises(RepositoryMissingError):
        await collect(world, repository="nowhere")


async def test_marks_stay_with_their_decision_though_conductor_knows_their_workflow_no_more(
    tmp_path: Path,
) -> None:
    """The mark is older than its decision; a decision without its marks would be resumed."""
    world = await FaultWorld(tmp_path, PolicySetting.SETTLED).started()
    await world.attempt(world.worker([crash(before="branches.create")]))
    await world.lose_lease()
    slow = meanwhile(lambda: world.clock.advance(30), before="commits.commit")
    await world.attempt(world.worker([slow, crash(after="decide")]))
    kept = [name for name in litter(world) if not name.startswith("perago-staging-")]
    kinds = [name.split("-")[1] for name in kept]
    assert kinds == ["attempt", "attempt", "settled"]
    world.conductor = MemoryConductor(world.clock)  # an archive has taken the workflow
    younger = timedelta(seconds=20)
    await collect(world, times=replace(AT_ONCE, decision=younger))
    assert set(kept) <= set(litter(world)), "the decision is younger than its time to live"
    world.clock.advance(30)
    await collect(world, times=replace(AT_ONCE, decision=younger))
    assert litter(world) == []
