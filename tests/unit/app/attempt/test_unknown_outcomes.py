"""A merge that nobody answered is settled by looking: what is sent again, kept, and told."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted, told
from tests.unit.app.gc.gc_scene import staging_branches

from perago.domain.outcome import TooManyTries
from perago.domain.policy import PolicySetting
from perago.domain.settled import LOOKS_MAX, ROUNDS_MAX
from perago.ports.errors import AccessDeniedError
from perago.ports.workspace import Phase
from perago.testing import AttemptStory
from perago.testing.embedded_workers import DIED
from perago.testing.faults import (
    Fault,
    always,
    answer,
    arrive_late,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
)

MERGE = "branches.merge"
WALK = "commits.first_parents"
UNKNOWN = "publication outcome unknown"
MERGES_OF_THE_CANARY = 2  # where there is a fence
POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]


async def _run(scene: AttemptScene, *faults: Fault) -> AttemptStory:
    await scene.start()
    story = await scene.next_attempt(*faults)
    assert story.status != DIED
    return story


def _evidence(story: AttemptStory) -> list[Mapping[str, object]]:
    return [facts for facts in told(story, Phase.WARNED) if facts["warning"] == UNKNOWN]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_merge_that_lands_while_it_is_sent_again_is_the_publication(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """The second one is refused by the fence; the first one is mine, nothing replaces it."""
    harness = AttemptHarness(tmp_path, policy)

    async def arrive() -> None:
        await harness.workers[0].arrive_late()

    late = meanwhile(arrive, before="merge", nth=2)
    never = always(crash(before="branches.relocate"))
    await harness.start()
    report = await harness.report(arrive_late("merge"), late, never)

    assert report.error is None
    await assert_accepted(harness)
    assert staging_branches(harness) == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_merges_that_are_never_answered_end_unknown_with_their_evidence(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy)

    await harness.start()
    worker = harness.worker([always(lose_request("merge"))])
    report = await harness.report_of(worker)

    assert reason_of(report).startswith("publication outcome unknown")
    assert "PRG-U001" in reason_of(report)
    assert harness.workers[0].calls[MERGE] <= MERGES_OF_THE_CANARY + 1 + ROUNDS_MAX
    (evidence,) = [facts for _, facts in worker.progress.events if facts.get("warning") == UNKNOWN]
    assert evidence["expected_head"] == harness.input
    assert harness.input in str(evidence["seen"])
    assert evidence["staged"] is not None
    assert len(staging_branches(harness)) == 1


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_lost_answer_is_settled_within_the_attempt(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(tmp_path, policy)
    story = await _run(scene, lose_answer("merge"))
    assert story.accepted, story.reason
    await assert_accepted(scene)
    assert staging_branches(scene) == []


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
async def test_a_merge_that_can_never_land_any_more_leaves_no_branch(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """Another writer was first, and the fence refuses the merge whenever it arrives."""
    scene = AttemptScene(tmp_path, policy)
    foreign = meanwhile(scene.human, before="merge")

    story = await _run(scene, foreign, lose_request("merge"))

    assert "PRG-F002" in str(story.reason)
    assert _evidence(story) == []
    assert staging_branches(scene) == []


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
async def test_without_the_fence_a_merge_is_never_sent_again(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(tmp_path, policy, fenced=False)

    story = await _run(scene, lose_request(MERGE))

    assert "PRG-U001" in str(story.reason)
    assert scene.publications() == [], "the first merge was lost, so there was a second"
    assert len(_evidence(story)) == 1
    assert len(staging_branches(scene)) == 1


@pytest.mark.parametrize("seconds", [0.01, 1, 30, 59.5])
async def test_a_merge_that_lands_before_the_deadline_is_seen(
    tmp_path: Path, seconds: float
) -> None:
    """Without the fence nothing may be sent again, so everything hangs on the looks."""
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)

    landing: list[asyncio.Future[None]] = []

    async def land() -> None:
        await harness.clock.sleep(seconds)
        await harness.workers[0].arrive_late()

    def begin() -> None:
        landing.append(asyncio.ensure_future(land()))

    await harness.start()
    report = await harness.report(meanwhile(begin, before=MERGE), arrive_late(MERGE))
    await asyncio.gather(*landing)

    assert report.error is None, report.error
    await assert_accepted(harness)
    assert harness.workers[0].calls[WALK] <= LOOKS_MAX


async def test_a_look_that_is_refused_saw_nothing(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    refused = refuse(WALK, AccessDeniedError("the token is being renewed"))
    story = await _run(scene, lose_answer(MERGE), refused)
    assert story.accepted, story.reason
    await assert_accepted(scene)


async def test_the_branch_of_a_merge_that_may_still_land_outlives_a_defect(tmp_path: Path) -> None:
    """Whatever ends the looks, nothing was concluded: what would land has to be there."""
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)

    def fail() -> None:
        raise RuntimeError("a defect")

    story = await _run(scene, lose_request(MERGE), meanwhile(fail, before=WALK))

    assert story.reason == "RuntimeError: a defect"
    assert len(staging_branches(scene)) == 1


async def test_a_merge_that_takes_all_its_time_is_looked_for(tmp_path: Path) -> None:
    """The budget ended with the merge itself; settling has its own time."""
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    slow = meanwhile(lambda: harness.clock.advance(harness.response_seconds), after="merge")
    report = await harness.report(slow, lose_answer("merge"))
    assert report.error is None, report.error


async def test_a_failed_look_does_not_end_the_settling(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    story = await _run(scene, lose_answer("merge"), lose_answer(WALK, nth=2))
    assert story.accepted, story.reason
    await assert_accepted(scene)


async def test_an_unanswered_merge_stays_unknown_though_later_ones_are_answered(
    tmp_path: Path,
) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    busy = always(answer("merge", TooManyTries("busy"), nth=2))
    story = await _run(scene, lose_request("merge"), busy)
    assert "PRG-U001" in str(story.reason)
    assert len(_evidence(story)) == 1


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_publication_is_not_failed_by_one_lost_look_at_its_parents(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """The first commit that is read is the input, the second one the publication."""
    scene = AttemptScene(tmp_path, policy)
    story = await _run(scene, lose_answer("commits.read", nth=2))
    assert story.accepted, story.reason
    await assert_accepted(scene)


async def test_parents_that_cannot_be_read_fail_the_attempt_in_the_end(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    story = await _run(scene, always(lose_answer("commits.read", nth=2)))
    assert "PRG-L008" in str(story.reason)
    await scene.finished()
    await assert_accepted(scene)
    assert scene.runs == 1


async def test_a_decision_that_is_never_answered_leaves_its_evidence(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    story = await _run(scene, always(lose_request("decide")))
    assert "PRG-U001" in str(story.reason)
    (evidence,) = _evidence(story)
    assert str(evidence["tag"]).startswith("perago-settled-")
    assert [str(evidence["staging_branch"])] == staging_branches(scene)
    await scene.finished()
    await assert_accepted(scene)


async def test_a_relocation_is_never_sent_again(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    abandoned = scene.human("data/abandoned.txt")
    story = await _run(scene, lose_request("branches.relocate"))
    assert "PRG-U001" in str(story.reason)
    assert scene.repository.head().commit == abandoned
    (evidence,) = _evidence(story)
    assert evidence["expected_head"] == scene.repository.head().commit
    assert any(tag.startswith("perago-relocated-") for tag in scene.repository.tags())


async def test_an_exact_tree_is_offered_again_when_the_server_gave_up(tmp_path: Path) -> None:
    """The second round finds the branch that the first one made."""
    scene = await AttemptScene(tmp_path, PolicySetting.LINEAGE).started()
    await scene.next_attempt(crash(after="merge"))
    assert len(scene.publications()) == 1
    story = await scene.next_attempt(answer("merge", TooManyTries("busy")))

    assert story.accepted, story.reason
    await assert_accepted(scene, publications_max=2)
    assert not any("-onto-" in name for name in staging_branches(scene))
