"""A merge that nobody answered is settled by looking: what is sent again, kept, and told."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, assert_accepted, reason_of
from tests.unit.app.gc.gc_scene import staging_branches

from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.outcome import TooManyTries
from perago.domain.policy import PolicySetting
from perago.domain.settled import LOOKS_MAX, ROUNDS_MAX
from perago.ports.errors import AccessDeniedError
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
MERGES_OF_THE_CANARY = 2  # where there is a fence
POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]


async def _run(
    harness: AttemptHarness, faults: Sequence[Fault]
) -> tuple[AttemptWorker, AttemptReport]:
    await harness.start()
    worker = harness.worker(faults)
    return worker, await harness.report_of(worker)


def _evidence(worker: AttemptWorker) -> list[Mapping[str, object]]:
    text = "publication outcome unknown"
    return [facts for _, facts in worker.progress.events if facts.get("warning") == text]


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
    _, report = await _run(harness, [arrive_late("merge"), late, never])

    assert report.error is None
    await assert_accepted(harness)
    assert staging_branches(harness) == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_merges_that_are_never_answered_end_unknown_with_their_evidence(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy)

    worker, report = await _run(harness, [always(lose_request("merge"))])

    assert reason_of(report).startswith("publication outcome unknown")
    assert "PRG-U001" in reason_of(report)
    assert harness.workers[0].calls[MERGE] <= MERGES_OF_THE_CANARY + 1 + ROUNDS_MAX
    (evidence,) = _evidence(worker)
    assert evidence["expected_head"] == harness.input
    assert harness.input in str(evidence["seen"])
    assert evidence["staged"] is not None
    assert len(staging_branches(harness)) == 1


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_lost_answer_is_settled_within_the_attempt(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy)
    _, report = await _run(harness, [lose_answer("merge")])
    assert report.error is None
    await assert_accepted(harness)
    assert staging_branches(harness) == []


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
async def test_a_merge_that_can_never_land_any_more_leaves_no_branch(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """Another writer was first, and the fence refuses the merge whenever it arrives."""
    harness = AttemptHarness(tmp_path, policy)
    foreign = meanwhile(harness.human, before="merge")

    worker, report = await _run(harness, [foreign, lose_request("merge")])

    assert "PRG-F002" in reason_of(report)
    assert _evidence(worker) == []
    assert staging_branches(harness) == []


@pytest.mark.parametrize("policy", POLICIES[:2], ids=str)
async def test_without_the_fence_a_merge_is_never_sent_again(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy, fenced=False)

    worker, report = await _run(harness, [lose_request(MERGE)])

    assert "PRG-U001" in reason_of(report)
    assert harness.workers[0].calls[MERGE] == 1
    assert len(_evidence(worker)) == 1
    assert len(staging_branches(harness)) == 1


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

    _, report = await _run(harness, [meanwhile(begin, before=MERGE), arrive_late(MERGE)])
    await asyncio.gather(*landing)

    assert report.error is None, report.error
    await assert_accepted(harness)
    assert harness.workers[0].calls[WALK] <= LOOKS_MAX


async def test_a_look_that_is_refused_saw_nothing(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    refused = refuse(WALK, AccessDeniedError("the token is being renewed"))
    _, report = await _run(harness, [lose_answer(MERGE), refused])
    assert report.error is None, report.error
    await assert_accepted(harness)


async def test_the_branch_of_a_merge_that_may_still_land_outlives_a_defect(tmp_path: Path) -> None:
    """Whatever ends the looks, nothing was concluded: what would land has to be there."""
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)

    def fail() -> None:
        raise RuntimeError("a defect")

    _, report = await _run(harness, [lose_request(MERGE), meanwhile(fail, before=WALK)])

    assert isinstance(report.error, RuntimeError)
    assert len(staging_branches(harness)) == 1


async def test_a_merge_that_takes_all_its_time_is_looked_for(tmp_path: Path) -> None:
    """The budget ended with the merge itself; settling has its own time."""
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    slow = meanwhile(lambda: harness.clock.advance(60), after="merge")
    _, report = await _run(harness, [slow, lose_answer("merge")])
    assert report.error is None, report.error


async def test_a_failed_look_does_not_end_the_settling(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    _, report = await _run(harness, [lose_answer("merge"), lose_answer(WALK, nth=2)])
    assert report.error is None, report.error
    await assert_accepted(harness)


async def test_an_unanswered_merge_stays_unknown_though_later_ones_are_answered(
    tmp_path: Path,
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    busy = always(answer("merge", TooManyTries("busy"), nth=2))
    worker, report = await _run(harness, [lose_request("merge"), busy])
    assert "PRG-U001" in reason_of(report)
    assert len(_evidence(worker)) == 1


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_publication_is_not_failed_by_one_lost_look_at_its_parents(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """The first commit that is read is the input, the second one the publication."""
    harness = AttemptHarness(tmp_path, policy)
    _, report = await _run(harness, [lose_answer("commits.read", nth=2)])
    assert report.error is None, report.error
    assert harness.workers[0].calls["commits.read"] == 3
    await assert_accepted(harness)


async def test_parents_that_cannot_be_read_fail_the_attempt_in_the_end(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    _, report = await _run(harness, [always(lose_answer("commits.read", nth=2))])
    assert "PRG-L008" in reason_of(report)
    await harness.finish()
    await assert_accepted(harness)
    assert harness.runs == 1


async def test_a_decision_that_is_never_answered_leaves_its_evidence(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    worker, report = await _run(harness, [always(lose_request("decide"))])
    assert "PRG-U001" in reason_of(report)
    (evidence,) = _evidence(worker)
    assert str(evidence["tag"]).startswith("perago-settled-")
    assert [str(evidence["staging_branch"])] == staging_branches(harness)
    await harness.finish()
    await assert_accepted(harness)


async def test_a_relocation_is_never_sent_again(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    harness.human("data/abandoned.txt")
    worker, report = await _run(harness, [lose_request("branches.relocate")])
    assert "PRG-U001" in reason_of(report)
    assert harness.workers[0].calls["branches.relocate"] == 1
    (evidence,) = _evidence(worker)
    assert evidence["expected_head"] == harness.repository.head().commit
    assert any(tag.startswith("perago-relocated-") for tag in harness.repository.tags())


async def test_an_exact_tree_is_offered_again_when_the_server_gave_up(tmp_path: Path) -> None:
    """The second round finds the branch that the first one made."""
    harness = await AttemptHarness(tmp_path, PolicySetting.LINEAGE).started()
    await harness.attempt(harness.worker([crash(after="merge")]))
    await harness.lose_lease()
    assert len(harness.publications()) == 1
    report = await harness.report(answer("merge", TooManyTries("busy")))

    assert report.error is None, report.error
    await assert_accepted(harness, publications_max=2)
    assert not any("-onto-" in name for name in staging_branches(harness))
