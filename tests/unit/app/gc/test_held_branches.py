"""What a decision needs stays, whatever fails or happens while a pass runs."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, assert_accepted
from tests.unit.app.gc.gc_scene import (
    AT_ONCE,
    DAY,
    HOUR,
    collect,
    decide_and_die,
    decisions,
    litter,
    staging_branches,
)

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY, STAGING_BRANCH
from perago.domain.lakefs import TagName
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import UnavailableError
from perago.testing.faults import (
    ANY_CALL,
    Crash,
    Fault,
    Meanwhile,
    Moment,
    Side,
    always,
    crash,
    lose_request,
    meanwhile,
    refuse,
)

DEFAULT = RetentionTimes()
DOWN = UnavailableError("down for a moment")


@pytest.fixture
def harness(tmp_path: Path) -> AttemptHarness:
    return AttemptHarness(tmp_path, PolicySetting.SETTLED)


async def ended_as_failed(harness: AttemptHarness) -> WorkflowRecord:
    """The operator ends the workflow while nobody works."""
    await harness.operator.workflows.terminate(harness.workflow, "stop")
    return await harness.read()


async def test_a_pass_that_loses_any_answer_keeps_what_a_living_decision_needs(
    tmp_path: Path,
) -> None:
    healthy = AttemptHarness(tmp_path / "healthy", PolicySetting.SETTLED)
    await decide_and_die(healthy)
    await healthy.lose_lease()
    await collect(healthy)
    calls = healthy.workers[-1].calls.total()
    assert calls > 5
    for nth in range(1, calls + 1):
        harness = AttemptHarness(tmp_path / str(nth), PolicySetting.SETTLED)
        await decide_and_die(harness)
        await harness.lose_lease()
        needed = {*decisions(harness), *staging_branches(harness)}
        await collect(harness, faults=[refuse(ANY_CALL, DOWN, nth=nth)])
        assert needed <= set(litter(harness)), f"call {nth} was not answered"
        await harness.finish()
        await assert_accepted(harness)
        assert harness.runs == 1, "the decision was finished, not made again"


async def test_a_replaced_attempt_that_decides_while_it_is_judged_keeps_its_branch(
    tmp_path: Path,
) -> None:
    """It committed before the pass began, and its tag comes at any later moment."""
    moments = [
        Moment(operation, side)
        for operation in ("tags.list_page", "branches.head", "tags.read", "branches.delete")
        for side in Side
    ]
    for number, moment in enumerate(moments):
        harness = await AttemptHarness(tmp_path / str(number), PolicySetting.SETTLED).started()
        await harness.attempt(harness.worker([crash(before="tags.create")]))
        await harness.lose_lease()
        harness.clock.advance(DAY)
        (branch,) = staging_branches(harness)
        head = harness.repository.head(branch)
        tag = f"perago-settled-{head.metadata[LOGICAL_EXECUTION_KEY]}"

        def decide(
            harness: AttemptHarness = harness, tag: str = tag, commit: str = head.commit
        ) -> None:
            harness.repository.tag(tag, commit)

        await collect(harness, times=DEFAULT, faults=[Meanwhile(moment, decide)])
        assert decisions(harness) == [tag], "the moment came"
        assert staging_branches(harness) == [branch], str(moment)
        assert harness.repository.head(branch).commit == head.commit


async def test_an_undecided_staged_commit_keeps_its_branch_for_a_day(
    harness: AttemptHarness,
) -> None:
    """Its attempt may stand still between commit and decision, and go on when it was replaced."""
    await harness.start()
    await harness.attempt(harness.worker([crash(before="tags.create")]))
    await harness.lose_lease()
    (branch,) = staging_branches(harness)
    await collect(harness, times=DEFAULT)
    assert staging_branches(harness) == [branch]
    harness.clock.advance(DAY)
    await collect(harness, times=DEFAULT)
    assert staging_branches(harness) == []


@pytest.mark.parametrize(
    "lost", [[], [lose_request("branch", nth=2)]], ids=["at once", "although a request is lost"]
)
async def test_an_attempt_that_decides_after_its_branch_went_puts_it_back(
    harness: AttemptHarness, lost: list[Fault]
) -> None:
    """It stood still between commit and decision, longer than any age; then it goes on."""
    await harness.start()
    gone: list[str] = []

    def be_collected() -> None:
        gone.extend(staging_branches(harness))
        harness.conductor.terminate(harness.workflow, "stop")
        harness.repository.delete_branch(*gone)

    collected = meanwhile(be_collected, before="tags.create")
    report = await harness.report(collected, *lost)
    assert report.update is None, "it learned that it is stale"
    (tag,) = decisions(harness)
    assert staging_branches(harness) == gone
    assert harness.repository.head(gone[0]).commit == harness.repository.tags()[TagName(tag)]


@pytest.mark.parametrize("call", ["tags.list_page", "commits.read", "branches.create"])
async def test_a_branch_is_put_back_although_one_answer_is_lost(
    harness: AttemptHarness, call: str
) -> None:
    await harness.start()
    await harness.attempt(harness.worker([crash(after="branch")]))
    await harness.lose_lease()
    (branch,) = staging_branches(harness)
    tag = f"perago-settled-{harness.workflow}-{'a' * 32}-{'b' * 32}"

    def commit_and_decide() -> None:
        metadata = {STAGING_BRANCH: branch}
        harness.repository.tag(tag, harness.repository.commit({}, branch, metadata=metadata))

    listed_before = 3  # decisions, marks, relocated heads
    lost = refuse(call, DOWN, nth=listed_before + 1 if call == "tags.list_page" else 1)
    decided = meanwhile(commit_and_decide, before="branches.delete")
    await collect(harness, times=DEFAULT, faults=[decided, lost])
    assert staging_branches(harness) == [branch]


async def test_a_retry_that_cannot_finish_a_decision_puts_its_branch_back(
    harness: AttemptHarness,
) -> None:
    """The attempt that decided was collected before and died right after: nobody else looks."""
    await decide_and_die(harness)
    (branch,) = staging_branches(harness)
    harness.repository.delete_branch(branch)
    await harness.lose_lease()

    def stop() -> None:
        harness.conductor.terminate(harness.workflow, "stop")

    await harness.attempt(harness.worker([meanwhile(stop, after="commits.first_parents")]))
    assert staging_branches(harness) == [branch]


async def test_a_retry_publishes_a_decision_whose_branch_is_gone(harness: AttemptHarness) -> None:
    """As long as lakeFS's own collection has not run, its commit is found by its id."""
    await decide_and_die(harness)
    harness.repository.delete_branch(*staging_branches(harness))
    await harness.lose_lease()
    await harness.attempt(harness.worker())
    await assert_accepted(harness)
    assert harness.runs == 1


@pytest.mark.parametrize("side", list(Side), ids=str)
async def test_a_branch_that_was_empty_when_it_was_judged_is_put_back_with_its_decision(
    harness: AttemptHarness, side: Side
) -> None:
    await harness.start()
    await harness.attempt(harness.worker([crash(after="branch")]))
    await harness.lose_lease()
    (branch,) = staging_branches(harness)
    made: Mapping[str, str] = {STAGING_BRANCH: branch}
    tag = f"perago-settled-{harness.workflow}-{'a' * 32}-{'b' * 32}"

    def commit_and_decide() -> None:
        harness.repository.tag(tag, harness.repository.commit({}, branch, metadata=made))

    moment = Moment("branches.head" if side is Side.AFTER else "branches.delete", side)
    judged = await collect(harness, times=DEFAULT, faults=[Meanwhile(moment, commit_and_decide)])
    assert staging_branches(harness) == [branch]
    assert harness.repository.head(branch).commit == harness.repository.tags()[TagName(tag)]
    (told,) = [each for each in judged if each.name == branch]
    assert (told.removed, told.error) == (False, None)
    assert "put back" in told.reason


async def test_a_commit_that_came_late_on_top_of_a_decision_hides_it_from_no_pass(
    harness: AttemptHarness,
) -> None:
    """A Spark body holds keys, and an executor of it may commit after the attempt did."""
    await decide_and_die(harness)
    (branch,) = staging_branches(harness)
    harness.repository.commit({"data/late.txt": b"late"}, branch)
    await harness.lose_lease()
    await collect(harness)
    assert staging_branches(harness) == [branch]


async def test_a_decision_of_an_ended_workflow_keeps_its_branch_for_the_operators_retry(
    harness: AttemptHarness,
) -> None:
    await decide_and_die(harness)
    needed = {*decisions(harness), *staging_branches(harness)}
    await ended_as_failed(harness)
    harness.clock.advance(6 * DAY)
    await collect(harness, times=DEFAULT)
    assert needed <= set(litter(harness))
    await harness.operator.workflows.retry(harness.workflow)
    await harness.finish()
    await assert_accepted(harness)
    assert harness.runs == 1


async def test_a_decision_and_its_branch_go_seven_days_after_the_end_of_their_workflow(
    harness: AttemptHarness,
) -> None:
    """The workflow stood still for a month before it ended."""
    await decide_and_die(harness)
    harness.clock.advance(30 * DAY)
    await ended_as_failed(harness)
    needed = {*decisions(harness), *staging_branches(harness)}
    harness.clock.advance(7 * DAY - 1)
    await collect(harness, times=DEFAULT)
    assert needed <= set(litter(harness))
    harness.clock.advance(1)
    await collect(harness, times=DEFAULT)
    assert litter(harness) == []


async def test_a_decision_that_conductor_does_not_know_goes_after_its_own_age(
    harness: AttemptHarness,
) -> None:
    await decide_and_die(harness)
    needed = {*decisions(harness), *staging_branches(harness)}
    harness.conductor = MemoryConductor(harness.clock)  # an archive has taken the workflow
    harness.clock.advance(7 * DAY - HOUR)
    await collect(harness, times=DEFAULT)
    assert needed <= set(litter(harness))
    harness.clock.advance(HOUR)
    await collect(harness, times=DEFAULT)
    assert litter(harness) == []


async def test_marks_of_a_living_workflow_stay_though_nothing_else_of_it_is_left(
    harness: AttemptHarness,
) -> None:
    """A rerun would take the key of the attempt it replaces, and resume where it should compute."""
    await harness.start()
    await harness.attempt(harness.worker([crash(before="branches.create")]))
    await harness.lose_lease()
    await harness.attempt(harness.worker([crash(after="tags.create")]))  # its mark
    (mark,) = [name for name in litter(harness) if name.startswith("perago-attempt-")]
    harness.clock.advance(30 * DAY)
    await collect(harness, times=DEFAULT)
    assert mark in litter(harness)
    await ended_as_failed(harness)
    harness.clock.advance(7 * DAY)
    await collect(harness, times=DEFAULT)
    assert mark not in litter(harness)


LONG = "publish_" * 16


async def empty_branch_of_an_old_input(harness: AttemptHarness, reference: str) -> str:
    harness.reference = reference
    harness.clock.advance(30 * DAY)
    await harness.start()
    await harness.attempt(harness.worker([crash(after="branch")]))
    (branch,) = staging_branches(harness)
    return branch


@pytest.mark.parametrize("reference", [TASK, LONG], ids=["short name", "long name"])
async def test_an_empty_branch_of_a_running_attempt_stays_however_old_its_input_is(
    harness: AttemptHarness, reference: str
) -> None:
    branch = await empty_branch_of_an_old_input(harness, reference)
    harness.clock.advance(1)
    await collect(harness)
    assert staging_branches(harness) == [branch]


@pytest.mark.parametrize("reference", [TASK, LONG], ids=["short name", "long name"])
async def test_an_empty_branch_of_another_conductor_goes_by_the_age_of_its_execution(
    harness: AttemptHarness, reference: str
) -> None:
    branch = await empty_branch_of_an_old_input(harness, reference)
    harness.conductor = MemoryConductor(harness.clock, seed=7)
    harness.clock.advance(DAY - 10)
    await collect(harness, times=DEFAULT)
    assert staging_branches(harness) == [branch]
    harness.clock.advance(10)
    await collect(harness, times=DEFAULT)
    assert litter(harness) == []


async def test_an_empty_branch_without_owner_and_time_stays_until_an_operator_says_now(
    harness: AttemptHarness,
) -> None:
    """An execution id of an older release tells no time, and the input is no measure."""
    harness.repository.branch("perago-staging-w-r-seq-1-iteration-0-task-id-t-retry-0-exec-e1")
    harness.clock.advance(365 * DAY)
    (kept,) = await collect(harness, times=DEFAULT)
    assert kept.reason == "no attempt is known to use it, and its age is unknown"
    await collect(harness, times=AT_ONCE)
    assert litter(harness) == []


CANARY_LEFT: dict[str, Crash] = {
    "target without a commit": crash(after="branches.create"),
    "source without a commit": crash(after="branches.create", nth=2),
    "source with its commit": crash(after="commits.commit"),
    "target after its merge": crash(after="branches.merge", nth=2),
}


@pytest.mark.parametrize("left", CANARY_LEFT.values(), ids=CANARY_LEFT)
async def test_whatever_a_check_of_the_fence_left_goes_after_an_hour(
    harness: AttemptHarness, left: Crash
) -> None:
    harness.clock.advance(30 * DAY)  # the commit that a canary begins at is old
    await harness.start()
    await harness.attempt(harness.worker([left]))
    await ended_as_failed(harness)
    assert litter(harness)
    harness.clock.advance(HOUR - 1)
    await collect(harness, times=DEFAULT)
    assert litter(harness)
    harness.clock.advance(1)
    await collect(harness, times=DEFAULT)
    assert litter(harness) == []


async def test_a_relocated_head_is_kept_for_its_time_however_old_it_was(tmp_path: Path) -> None:
    """The tag's age is that of the relocation, not of the commit it keeps."""
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await harness.attempt(harness.worker([crash(after="branches.merge")]))
    await harness.lose_lease()
    harness.clock.advance(60 * DAY)
    await harness.finish()
    kept = [name for name in litter(harness) if name.startswith("perago-relocated-")]
    assert len(kept) == 1
    harness.clock.advance(30 * DAY - HOUR)
    await collect(harness, times=DEFAULT)
    assert [name for name in litter(harness) if name.startswith("perago-relocated-")] == kept
    harness.clock.advance(HOUR)
    await collect(harness, times=DEFAULT)
    assert litter(harness) == []


async def test_marks_stay_while_a_decision_of_their_workflow_cannot_go(
    harness: AttemptHarness,
) -> None:
    await harness.start()
    await harness.attempt(harness.worker([crash(before="branches.create")]))
    await harness.lose_lease()
    await harness.attempt(harness.worker([crash(after="decide")]))
    await ended_as_failed(harness)
    marks = [name for name in litter(harness) if name.startswith("perago-attempt-")]
    assert marks
    await collect(harness, faults=[refuse("tags.delete", DOWN)])
    assert len(decisions(harness)) == 1
    assert set(marks) <= set(litter(harness))
    deletions = len(decisions(harness)) + 1
    await collect(harness, faults=[refuse("tags.delete", DOWN, nth=deletions)])
    left = sorted(name for name in litter(harness) if name.startswith("perago-attempt-"))
    assert left == sorted(marks), "the newest could not go, so no older one went"
    await collect(harness)
    assert litter(harness) == []


async def test_a_conductor_that_is_down_is_asked_three_times_and_nothing_goes(
    harness: AttemptHarness,
) -> None:
    names = [
        f"perago-settled-{number:08x}-0000-4000-8000-{'0' * 12}-{'a' * 32}-{'b' * 32}"
        for number in range(10)
    ]
    for name in names:
        harness.repository.tag(name, "main")
    refused = [always(refuse("queue.read_workflow", DOWN))]
    judged = await collect(harness, faults=refused)
    assert harness.workers[-1].calls["queue.read_workflow"] == 3
    assert decisions(harness) == names
    assert [each.name for each in judged if each.error] == names


async def test_an_attempt_with_an_unknown_outcome_keeps_its_branch_while_its_workflow_lives(
    tmp_path: Path,
) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.LINEAGE, fenced=False).started()
    report = await harness.report(lose_request("branches.merge"))
    assert report.update is not None
    assert (report.update.reason or "").startswith("publication outcome unknown")
    (branch,) = staging_branches(harness)
    await collect(harness, times=DEFAULT)
    assert staging_branches(harness) == [branch]
    await ended_as_failed(harness)
    await collect(harness, times=DEFAULT)
    assert staging_branches(harness) == []
