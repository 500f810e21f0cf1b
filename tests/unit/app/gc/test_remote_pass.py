"""A crash at any call leaves only litter that a pass finds, and no pass disturbs what runs."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, at_each_request
from tests.unit.app.attempt.attempt_scene import assert_accepted
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
    async for nth, harness in at_each_request(tmp_path, policy):
        await harness.attempt(harness.worker([crash(after=ANY_CALL, nth=nth)]))
        await harness.finish()
        littered += bool(litter(harness))
        before = litter(harness)
        shown = await collect(harness, dry_run=True)
        assert litter(harness) == before, "a dry run removes nothing"
        removed = await collect(harness)
        assert [each.error for each in removed if each.error] == []
        assert litter(harness) == [], f"death after call {nth}"
        assert {(each.kind, each.name) for each in shown if each.removed} == {
            (each.kind, each.name) for each in removed if each.removed
        }
        await assert_accepted(harness, publications_max=2)
    assert littered > 0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_pass_between_a_death_and_its_retry_disturbs_nothing(
    tmp_path: Path, policy: PolicySetting
) -> None:
    async for nth, harness in at_each_request(tmp_path, policy):
        await harness.attempt(harness.worker([crash(after=ANY_CALL, nth=nth)]))
        await collect(harness)
        runs = harness.runs
        decided = any(name.startswith("perago-settled-") for name in litter(harness))
        await harness.finish()
        await assert_accepted(harness, publications_max=2)
        assert harness.runs == runs or not decided, "a decision outlives a pass while its task runs"


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
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    for branch in ("perago-staging-of-nobody", "perago-canary-x"):
        harness.repository.branch(branch)
    for tag in ("perago-relocated-x", DECISION, MARK):
        harness.repository.tag(tag, "main")
    judged = await collect(harness, faults=[fault])
    assert set(litter(harness)) == left
    (error,) = [each.error for each in judged if each.error]
    assert "down for a moment" in error


async def test_a_repository_that_is_not_there_is_an_error_of_the_whole_pass(
    tmp_path: Path,
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    with pytest.raises(RepositoryMissingError):
        await collect(harness, repository="nowhere")


async def test_marks_stay_with_their_decision_though_conductor_knows_their_workflow_no_more(
    tmp_path: Path,
) -> None:
    """The mark is older than its decision; a decision without its marks would be resumed."""
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    await harness.attempt(harness.worker([crash(before="branches.create")]))
    await harness.lose_lease()
    slow = meanwhile(lambda: harness.clock.advance(30), before="commits.commit")
    await harness.attempt(harness.worker([slow, crash(after="decide")]))
    kept = [name for name in litter(harness) if not name.startswith("perago-staging-")]
    kinds = [name.split("-")[1] for name in kept]
    assert kinds == ["attempt", "attempt", "settled"]
    harness.conductor = MemoryConductor(harness.clock)  # an archive has taken the workflow
    younger = timedelta(seconds=20)
    await collect(harness, times=replace(AT_ONCE, decision=younger))
    assert set(kept) <= set(litter(harness)), "the decision is younger than its time to live"
    harness.clock.advance(30)
    await collect(harness, times=replace(AT_ONCE, decision=younger))
    assert litter(harness) == []
