"""What a decision needs stays, whatever fails or happens while a pass runs."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, assert_accepted
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
def world(tmp_path: Path) -> FaultWorld:
    return FaultWorld(tmp_path, PolicySetting.SETTLED)


async def ended_as_failed(world: FaultWorld) -> WorkflowRecord:
    """The operator ends the workflow while nobody works."""
    await world.operator.workflows.terminate(world.workflow, "stop")
    return await world.read()


async def test_a_pass_that_loses_any_answer_keeps_what_a_living_decision_needs(
    tmp_path: Path,
) -> None:
    healthy = FaultWorld(tmp_path / "healthy", PolicySetting.SETTLED)
    await decide_and_die(healthy)
    await healthy.lose_lease()
    await collect(healthy)
    calls = healthy.workers[-1].calls.total()
    assert calls > 5
    for nth in range(1, calls + 1):
        world = FaultWorld(tmp_path / str(nth), PolicySetting.SETTLED)
        await decide_and_die(world)
        await world.lose_lease()
        needed = {*decisions(world), *staging_branches(world)}
        await collect(world, faults=[refuse(ANY_CALL, DOWN, nth=nth)])
        assert needed <= set(litter(world)), f"call {nth} was not answered"
        await world.finish()
        await assert_accepted(world)
        assert world.runs == 1, "the decision was finished, not made again"


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
        world = await FaultWorld(tmp_path / str(number), PolicySetting.SETTLED).started()
        await world.attempt(world.worker([crash(before="tags.create")]))
        await world.lose_lease()
        world.clock.advance(DAY)
        (branch,) = staging_branches(world)
        head = world.repository.head(branch)
        tag = f"perago-settled-{head.metadata[LOGICAL_EXECUTION_KEY]}"

        def decide(world: FaultWorld = world, tag: str = tag, commit: str = head.commit) -> None:
            world.repository.tag(tag, commit)

        await collect(world, times=DEFAULT, faults=[Meanwhile(moment, decide)])
        assert decisions(world) == [tag], "the moment came"
        assert staging_branches(world) == [branch], str(moment)
        assert world.repository.head(branch).commit == head.commit


async def test_an_undecided_staged_commit_keeps_its_branch_for_a_day(
    world: FaultWorld,
) -> None:
    """Its attempt may stand still between commit and decision, and go on when it was replaced."""
    await world.start()
    await world.attempt(world.worker([crash(before="tags.create")]))
    await world.lose_lease()
    (branch,) = staging_branches(world)
    await collect(world, times=DEFAULT)
    assert staging_branches(world) == [branch]
    world.clock.advance(DAY)
    await collect(world, times=DEFAULT)
    assert staging_branches(world) == []


@pytest.mark.parametrize(
    "lost", [[], [lose_request("branch", nth=2)]], ids=["at once", "although a request is lost"]
)
async def test_an_attempt_that_decides_after_its_branch_went_puts_it_back(
    world: FaultWorld, lost: list[Fault]
) -> None:
    """It stood still between commit and decision, longer than any age; then it goes on."""
    await world.start()
    gone: list[str] = []

    def be_collected() -> None:
        gone.extend(staging_branches(world))
        world.conductor.terminate(world.workflow, "stop")
        world.repository.delete_branch(*gone)

    collected = meanwhile(be_collected, before="tags.create")
    report = await world.report(collected, *lost)
    assert report.update is None, "it learned that it is stale"
    (tag,) = decisions(world)
    assert staging_branches(world) == gone
    assert world.repository.head(gone[0]).commit == world.repository.tags()[TagName(tag)]


@pytest.mark.parametrize("call", ["tags.list_page", "commits.read", "branches.create"])
async def test_a_branch_is_put_back_although_one_answer_is_lost(
    world: FaultWorld, call: str
) -> None:
    await world.start()
    await world.attempt(world.worker([crash(after="branch")]))
    await world.lose_lease()
    (branch,) = staging_branches(world)
    tag = f"perago-settled-{world.workflow}-{'a' * 32}-{'b' * 32}"

    def commit_and_decide() -> None:
        metadata = {STAGING_BRANCH: branch}
        world.repository.tag(tag, world.repository.commit({}, branch, metadata=metadata))

    listed_before = 3  # decisions, marks, relocated heads
    lost = refuse(call, DOWN, nth=listed_before + 1 if call == "tags.list_page" else 1)
    decided = meanwhile(commit_and_decide, before="branches.delete")
    await collect(world, times=DEFAULT, faults=[decided, lost])
    assert staging_branches(world) == [branch]


async def test_a_retry_that_cannot_finish_a_decision_puts_its_branch_back(
    world: FaultWorld,
) -> None:
    """The attempt that decided was collected before and died right after: nobody else looks."""
    await decide_and_die(world)
    (branch,) = staging_branches(world)
    world.repository.delete_branch(branch)
    await world.lose_lease()

    def stop() -> None:
        world.conductor.terminate(world.workflow, "stop")

    await world.attempt(world.worker([meanwhile(stop, after="commits.first_parents")]))
    assert staging_branches(world) == [branch]


async def test_a_retry_publishes_a_decision_whose_branch_is_gone(world: FaultWorld) -> None:
    """As long as lakeFS's own collection has not run, its commit is found by its id."""
    await decide_and_die(world)
    world.repository.delete_branch(*staging_branches(world))
    await world.lose_lease()
    await world.attempt(world.worker())
    await assert_accepted(world)
    assert world.runs == 1


@pytest.mark.parametrize("side", list(Side), ids=str)
async def test_a_branch_that_was_empty_when_it_was_judged_is_put_back_with_its_decision(
    world: FaultWorld, side: Side
) -> None:
    await world.start()
    await world.attempt(world.worker([crash(after="branch")]))
    await world.lose_lease()
    (branch,) = staging_branches(world)
    made: Mapping[str, str] = {STAGING_BRANCH: branch}
    tag = f"perago-settled-{world.workflow}-{'a' * 32}-{'b' * 32}"

    def commit_and_decide() -> None:
        world.repository.tag(tag, world.repository.commit({}, branch, metadata=made))

    moment = Moment("branches.head" if side is Side.AFTER else "branches.delete", side)
    judged = await collect(world, times=DEFAULT, faults=[Meanwhile(moment, commit_and_decide)])
    assert staging_branches(world) == [branch]
    assert world.repository.head(branch).commit == world.repository.tags()[TagName(tag)]
    (told,) = [each for each in judged if each.name == branch]
    assert (told.removed, told.error) == (False, None)
    assert "put back" in told.reason


async def test_a_commit_that_came_late_on_top_of_a_decision_hides_it_from_no_pass(
    world: FaultWorld,
) -> None:
    """A Spark body holds keys, and an executor of it may commit after the attempt did."""
    await decide_and_die(world)
    (branch,) = staging_branches(world)
    world.repository.commit({"data/late.txt": b"late"}, branch)
    await world.lose_lease()
    await collect(world)
    assert staging_branches(world) == [branch]


async def test_a_decision_of_an_ended_workflow_keeps_its_branch_for_the_operators_retry(
    world: FaultWorld,
) -> None:
    await decide_and_die(world)
    needed = {*decisions(world), *staging_branches(world)}
    await ended_as_failed(world)
    world.clock.advance(6 * DAY)
    await collect(world, times=DEFAULT)
    assert needed <= set(litter(world))
    await world.operator.workflows.retry(world.workflow)
    await world.finish()
    await assert_accepted(world)
    assert world.runs == 1


async def test_a_decision_and_its_branch_go_seven_days_after_the_end_of_their_workflow(
    world: FaultWorld,
) -> None:
    """The workflow stood still for a month before it ended."""
    await decide_and_die(world)
    world.clock.advance(30 * DAY)
    await ended_as_failed(world)
    needed = {*decisions(world), *staging_branches(world)}
    world.clock.advance(7 * DAY - 1)
    await collect(world, times=DEFAULT)
    assert needed <= set(litter(world))
    world.clock.advance(1)
    await collect(world, times=DEFAULT)
    assert litter(world) == []


async def test_a_decision_that_conductor_does_not_know_goes_after_its_own_age(
    world: FaultWorld,
) -> None:
    await decide_and_die(world)
    needed = {*decisions(world), *staging_branches(world)}
    world.conductor = MemoryConductor(world.clock)  # an archive has taken the workflow
    world.clock.advance(7 * DAY - HOUR)
    await collect(world, times=DEFAULT)
    assert needed <= set(litter(world))
    world.clock.advance(HOUR)
    await collect(world, times=DEFAULT)
    assert litter(world) == []


async def test_marks_of_a_living_workflow_stay_though_nothing_else_of_it_is_left(
    world: FaultWorld,
) -> None:
    """A rerun would take the key of the attempt it replaces, and resume where it should compute."""
    await world.start()
    await world.attempt(world.worker([crash(before="branches.create")]))
    await world.lose_lease()
    await world.attempt(world.worker([crash(after="tags.create")]))  # its mark
    (mark,) = [name for name in litter(world) if name.startswith("perago-attempt-")]
    world.clock.advance(30 * DAY)
    await collect(world, times=DEFAULT)
    assert mark in litter(world)
    await ended_as_failed(world)
    world.clock.advance(7 * DAY)
    await collect(world, times=DEFAULT)
    assert mark not in litter(world)


LONG = "publish_" * 16


async def empty_branch_of_an_old_input(world: FaultWorld, reference: str) -> str:
    world.reference = reference
    world.clock.advance(30 * DAY)
    await world.start()
    await world.attempt(world.worker([crash(after="branch")]))
    (branch,) = staging_branches(world)
    return branch


@pytest.mark.parametrize("reference", [TASK, LONG], ids=["short name", "long name"])
async def test_an_empty_branch_of_a_running_attempt_stays_however_old_its_input_is(
    world: FaultWorld, reference: str
) -> None:
    branch = await empty_branch_of_an_old_input(world, reference)
    world.clock.advance(1)
    await collect(world)
    assert staging_branches(world) == [branch]


@pytest.mark.parametrize("reference", [TASK, LONG], ids=["short name", "long name"])
async def test_an_empty_branch_of_another_conductor_goes_by_the_age_of_its_execution(
    world: FaultWorld, reference: str
) -> None:
    branch = await empty_branch_of_an_old_input(world, reference)
    world.conductor = MemoryConductor(world.clock, seed=7)
    world.clock.advance(DAY - 10)
    await collect(world, times=DEFAULT)
    assert staging_branches(world) == [branch]
    world.clock.advance(10)
    await collect(world, times=DEFAULT)
    assert litter(world) == []


async def test_an_empty_branch_without_owner_and_time_stays_until_an_operator_says_now(
    world: FaultWorld,
) -> None:
    """An execution id of an older release tells no time, and the input is no measure."""
    world.repository.branch("perago-staging-w-r-seq-1-iteration-0-task-id-t-retry-0-exec-e1")
    world.clock.advance(365 * DAY)
    (kept,) = await collect(world, times=DEFAULT)
    assert kept.reason == "no attempt is known to use it, and its age is unknown"
    await collect(world, times=AT_ONCE)
    assert litter(world) == []


CANARY_LEFT: dict[str, Crash] = {
    "target without a commit": crash(after="branches.create"),
    "source without a commit": crash(after="branches.create", nth=2),
    "source with its commit": crash(after="commits.commit"),
    "target after its merge": crash(after="branches.merge", nth=2),
}


@pytest.mark.parametrize("left", CANARY_LEFT.values(), ids=CANARY_LEFT)
async def test_whatever_a_check_of_the_fence_left_goes_after_an_hour(
    world: FaultWorld, left: Crash
) -> None:
    world.clock.advance(30 * DAY)  # the commit that a canary begins at is old
    await world.start()
    await world.attempt(world.worker([left]))
    await ended_as_failed(world)
    assert litter(world)
    world.clock.advance(HOUR - 1)
    await collect(world, times=DEFAULT)
    assert litter(world)
    world.clock.advance(1)
    await collect(world, times=DEFAULT)
    assert litter(world) == []


async def test_a_relocated_head_is_kept_for_its_time_however_old_it_was(tmp_path: Path) -> None:
    """The tag's age is that of the relocation, not of the commit it keeps."""
    world = await FaultWorld(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await world.attempt(world.worker([crash(after="branches.merge")]))
    await world.lose_lease()
    world.clock.advance(60 * DAY)
    await world.finish()
    kept = [name for name in litter(world) if name.startswith("perago-relocated-")]
    assert len(kept) == 1
    world.clock.advance(30 * DAY - HOUR)
    await collect(world, times=DEFAULT)
    assert [name for name in litter(world) if name.startswith("perago-relocated-")] == kept
    world.clock.advance(HOUR)
    await collect(world, times=DEFAULT)
    assert litter(world) == []


async def test_marks_stay_while_a_decision_of_their_workflow_cannot_go(world: FaultWorld) -> None:
    await world.start()
    await world.attempt(world.worker([crash(before="branches.create")]))
    await world.lose_lease()
    await world.attempt(world.worker([crash(after="decide")]))
    await ended_as_failed(world)
    marks = [name for name in litter(world) if name.startswith("perago-attempt-")]
    assert marks
    await collect(world, faults=[refuse("tags.delete", DOWN)])
    assert len(decisions(world)) == 1
    assert set(marks) <= set(litter(world))
    deletions = len(decisions(world)) + 1
    await collect(world, faults=[refuse("tags.delete", DOWN, nth=deletions)])
    left = sorted(name for name in litter(world) if name.startswith("perago-attempt-"))
    assert left == sorted(marks), "the newest could not go, so no older one went"
    await collect(world)
    assert litter(world) == []


async def test_a_conductor_that_is_down_is_asked_three_times_and_nothing_goes(
    world: FaultWorld,
) -> None:
    names = [
        f"perago-settled-{number:08x}-0000-4000-8000-{'0' * 12}-{'a' * 32}-{'b' * 32}"
        for number in range(10)
    ]
    for name in names:
        world.repository.tag(name, "main")
    refused = [always(refuse("queue.read_workflow", DOWN))]
    judged = await collect(world, faults=refused)
    assert world.workers[-1].calls["queue.read_workflow"] == 3
    assert decisions(world) == names
    assert [each.name for each in judged if each.error] == names


async def test_an_attempt_with_an_unknown_outcome_keeps_its_branch_while_its_workflow_lives(
    tmp_path: Path,
) -> None:
    world = await FaultWorld(tmp_path, PolicySetting.LINEAGE, fenced=False).started()
    report = await world.report(lose_request("branches.merge"))
    assert report.update is not None
    assert (report.update.reason or "").startswith("publication outcome unknown")
    (branch,) = staging_branches(world)
    await collect(world, times=DEFAULT)
    assert staging_branches(world) == [branch]
    await ended_as_failed(world)
    await collect(world, times=DEFAULT)
    assert staging_branches(world) == []
