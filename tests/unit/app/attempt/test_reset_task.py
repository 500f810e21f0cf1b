"""`perago reset-task`: what was decided or published before counts for no later attempt."""

from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, Params, reason_of
from tests.unit.app.gc.gc_scene import DAY, collect, decisions, litter

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.attempt.reset_task import WorkflowRunsError
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.logical_execution import AttemptMark, attempt_mark_tag
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.testing.fault_injector import FaultInjector, ProcessDied
from perago.testing.faults import crash, meanwhile

UNPUBLISHED, PUBLISHED = crash(before="merge"), crash(after="merge")


class LaterResult(BaseModel):
    """What a later release reports."""

    number: int


def _later_release(world: FaultWorld) -> TaskDefinition:
    @task(name=TASK, owner_email="data@example.com", workspace=world.spec)
    def edit(workspace: Path, params: Params) -> LaterResult:
        world.runs += 1
        (workspace / "out.txt").write_text(f"later {params.text}")
        return LaterResult(number=world.runs)

    definition: TaskDefinition = vars(edit)["__perago_task__"]
    return definition


async def _started(tmp_path: Path) -> FaultWorld:
    return await FaultWorld(tmp_path, PolicySetting.SETTLED).started()


async def _ended(world: FaultWorld) -> None:
    await world.operator.workflows.terminate(world.workflow, "the operator looks at it")


async def _attempt(world: FaultWorld) -> AttemptReport:
    report = await world.report()
    assert report.update is not None
    return report


async def _refused_result(world: FaultWorld) -> None:
    """A release that reports something else meets the decision of the one before it."""
    world.task = _later_release(world)
    await world.lose_lease()
    report = await _attempt(world)
    assert "PRG-R003" in reason_of(report)
    assert "perago reset-task" in reason_of(report)


async def test_the_remedy_of_a_result_that_fits_no_more_computes_again(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    await _refused_result(world)
    await _ended(world)

    await world.reset_task()
    await world.operator.workflows.retry(world.workflow)
    report = await _attempt(world)

    assert report.error is None, report.error
    assert report.update is not None
    assert report.update.output["result"] == {"number": 2}
    assert world.repository.files()["data/out.txt"] == b"later new"
    assert len(world.publications()) == 1


async def test_a_publication_of_before_is_not_adopted_and_the_refusal_says_why(
    tmp_path: Path,
) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([PUBLISHED]))
    published = world.repository.head().commit
    await _refused_result(world)
    await _ended(world)

    reset = await world.reset_task()
    await world.operator.workflows.retry(world.workflow)
    report = await _attempt(world)

    assert [each.record.commit for each in reset.published] == [published]
    assert report.status == AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert f"current head is {published}" in str(report.error)
    assert "another execution of this task published it" in str(report.error)
    assert "start a new workflow from the current head" in str(report.error)


async def test_the_chain_that_a_rerun_of_a_retry_began_is_the_one_that_is_reset(
    tmp_path: Path,
) -> None:
    """Its rows lead back to the first one; only marks tell that it is another chain."""
    world = await _started(tmp_path)
    for _ in range(2):  # an attempt and its retry
        await world.attempt(world.worker([crash(before="branch")]))
        await world.lose_lease()
    (_, retry, _) = (await world.read()).attempts
    await _ended(world)
    await world.operator.workflows.rerun(world.workflow, retry.snapshot.task_id)
    await world.attempt(world.worker([PUBLISHED]))
    published = world.repository.head().commit
    assert published != world.input
    await _ended(world)

    await world.reset_task()
    await world.operator.workflows.retry(world.workflow)
    report = await _attempt(world)

    assert "another execution of this task published it" in str(report.error)


async def test_a_rerun_on_the_current_head_computes_again(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([PUBLISHED]))
    published = world.repository.head().commit
    await _refused_result(world)
    await _ended(world)

    await world.reset_task()
    (*_, newest) = (await world.read()).attempts
    given = {**newest.input_data, "workspace": world.workspace(ref=published)}
    world.clock.advance(1)
    await world.operator.workflows.rerun(world.workflow, newest.snapshot.task_id, given)
    report = await _attempt(world)

    assert report.error is None, report.error
    assert len(world.publications()) == 2
    assert world.repository.head().parents == (published,)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_every_reset_begins_anew(tmp_path: Path, times: int) -> None:
    world = await _started(tmp_path)
    for number in range(times):
        await world.attempt(world.worker([UNPUBLISHED]))
        assert world.runs == number + 1, "a retry after the reset runs the body"
        await _ended(world)
        await world.reset_task()
        await world.operator.workflows.retry(world.workflow)

    report = await _attempt(world)

    assert report.error is None, report.error
    assert world.runs == times + 1
    assert len(world.publications()) == 1


async def test_all_retries_after_a_reset_are_one_execution(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    await _ended(world)
    await world.reset_task()
    await world.operator.workflows.retry(world.workflow)
    await world.attempt(world.worker([UNPUBLISHED]))
    await world.lose_lease()

    workflow = await world.finish()

    assert workflow.status is WorkflowStatus.COMPLETED
    assert world.runs == 2


async def _started_fork(world: FaultWorld) -> None:
    """A workflow with two branches, `left` and `right`, of the same task."""
    await world.start()
    await _ended(world)
    place: dict[str, object] = {"workspace": "${workflow.input.workspace}", "params": {}}

    def branch(name: str) -> list[dict[str, object]]:
        row = {"name": TASK, "taskReferenceName": name, "type": "SIMPLE"}
        return [{**row, "inputParameters": place}]

    fork: dict[str, object] = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN"}
    fork["forkTasks"] = [branch("left"), branch("right")]
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}
    join_on: dict[str, object] = {**join, "joinOn": ["left", "right"]}
    definition = {"name": "forked", "version": 1, "schemaVersion": 2, "tasks": [fork, join_on]}
    await world.operator.workflows.put_definition(definition)
    given = {"workspace": world.workspace()}
    world.workflow = await world.operator.workflows.start("forked", given)


async def test_a_row_that_is_handed_out_again_begins_anew(tmp_path: Path) -> None:
    """A rerun of its sibling brings a cancelled row back as it was, with its scheduled time."""
    world = FaultWorld(tmp_path, PolicySetting.SETTLED)
    await _started_fork(world)
    left = await world.worker().poll(TASK)
    right = await world.worker().poll(TASK)
    assert left is not None
    assert right is not None
    assert (left.snapshot.reference_name, right.snapshot.reference_name) == ("left", "right")
    with suppress(ProcessDied):
        await world.drive(world.worker([PUBLISHED]).run(left))
    published = world.repository.head().commit
    assert published != world.input
    await _ended(world)
    await world.reset_task("left")
    await world.operator.workflows.rerun(world.workflow, right.snapshot.task_id)

    again = await world.worker().poll(TASK)
    assert again is not None
    assert again.snapshot.task_id == left.snapshot.task_id
    assert (again.snapshot.retry_count, again.snapshot.poll_count) == (0, 2)
    report = await world.drive(world.worker().run(again))

    assert world.runs == 2, "it computes, and does not adopt what was published before"
    assert "another execution of this task published it" in str(report.error)


async def test_what_a_reset_removes_and_leaves(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    (decision,) = world.repository.tags()
    (branch,) = world.repository.branch_names() - {"main"}
    await _ended(world)

    reset = await world.reset_task()

    assert reset.decisions == [decision]
    assert reset.branches == [branch]
    assert reset.published == []
    assert list(world.repository.tags()) == reset.marks
    assert world.repository.branch_names() == {"main"}
    assert world.repository.head().commit == world.input


async def test_another_task_of_the_workflow_keeps_what_it_decided(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    before = world.repository.tags()
    await _ended(world)

    reset = await world.reset_task("another")

    assert (reset.marks, reset.decisions) == ([], [])
    assert world.repository.tags() == before


@pytest.mark.parametrize("says", ["nothing", "a wrong iteration"])
async def test_a_decision_with_strange_metadata_is_removed(tmp_path: Path, says: str) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    (tag,) = world.repository.tags()
    metadata = {LOGICAL_TASK_KEY: f"{world.workflow}/{TASK}/first"}
    made = world.repository.commit({"x": b"x"}, metadata=metadata if says != "nothing" else {})
    world.repository.delete_tag(tag)
    world.repository.tag(tag, made)
    await _ended(world)

    reset = await world.reset_task()

    assert reset.decisions == [tag]


async def test_decisions_of_a_workflow_that_conductor_forgot_are_removed(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    (decision,) = world.repository.tags()
    world.conductor = MemoryConductor(VirtualClock())
    world.operator = conductor_installation(world.conductor, WorkerHandle())

    reset = await world.reset_task()

    assert (reset.decisions, reset.marks) == ([decision], [])


async def test_a_reset_reads_the_decisions_of_its_workflow_only(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    for _ in range(3):
        await world.attempt(world.worker([UNPUBLISHED]))
        await world.start()
    await world.attempt(world.worker([UNPUBLISHED]))
    await _ended(world)
    injector = FaultInjector()

    reset = await world.reset_task(injector=injector)

    assert len(reset.decisions) == 1
    assert len(world.repository.tags()) == 4, "three decisions of others, and the mark"
    assert injector.calls["commits.read"] <= 3


async def test_a_workflow_that_is_brought_back_beside_a_reset_is_told(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await world.attempt(world.worker([UNPUBLISHED]))
    await _ended(world)
    brought_back = meanwhile(lambda: world.conductor.retry(world.workflow), after="tags.create")

    with pytest.raises(WorkflowRunsError, match="run `perago reset-task` again"):
        await world.reset_task(injector=FaultInjector([brought_back]))
    await _ended(world)
    await world.reset_task()
    await world.operator.workflows.retry(world.workflow)

    report = await _attempt(world)
    assert report.error is None, report.error
    assert world.runs == 2


async def _published_and_ended_long_ago(world: FaultWorld) -> None:
    """A retry published; its workflow ended eight days ago."""
    await world.attempt(world.worker([crash(before="branch")]))
    await world.lose_lease()
    await world.attempt(world.worker([PUBLISHED]))
    await _ended(world)
    world.clock.advance(8 * DAY)


async def _rerun_of_the_newest(world: FaultWorld) -> AttemptReport:
    (*_, newest) = (await world.read()).attempts
    await world.operator.workflows.rerun(world.workflow, newest.snapshot.task_id)
    return await _attempt(world)


async def test_a_pass_leaves_the_reset_of_a_workflow_that_ended_long_ago(tmp_path: Path) -> None:
    """The operator resets, a pass runs, and only then the operator retries."""
    world = await _started(tmp_path)
    await _published_and_ended_long_ago(world)

    await world.reset_task()
    await collect(world, times=RetentionTimes())
    await world.operator.workflows.retry(world.workflow)
    report = await _attempt(world)

    assert "another execution of this task published it" in str(report.error)


async def test_a_reset_that_lands_while_a_pass_runs_keeps_the_marks_it_stands_on(
    tmp_path: Path,
) -> None:
    """The pass has listed the marks by then; without them a retry finds another chain."""
    world = await _started(tmp_path)
    await _published_and_ended_long_ago(world)
    (*_, newest) = (await world.read()).attempts
    now = int(world.clock.now().timestamp() * 1000)
    mark = attempt_mark_tag(newest.snapshot, AttemptMark("0" * 32, now))
    marks = {name for name in litter(world) if name.startswith("perago-attempt-")}
    assert marks

    def reset() -> None:
        world.repository.tag(mark, world.input)

    listed = meanwhile(reset, after="queue.read_workflow")
    await collect(world, times=RetentionTimes(), faults=[listed])
    assert {*marks, mark} <= set(litter(world))


async def test_a_reset_goes_when_it_is_as_old_as_a_decision_may_be(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await _published_and_ended_long_ago(world)

    await world.reset_task()
    world.clock.advance(8 * DAY)
    await collect(world, times=RetentionTimes())

    assert litter(world) == []


async def test_a_rerun_of_a_retry_without_its_marks_adopts_what_its_task_published(
    tmp_path: Path,
) -> None:
    """The limit that docs/guarantees.md states: nothing tells such a rerun from a retry."""
    world = await _started(tmp_path)
    await _published_and_ended_long_ago(world)
    published = world.repository.head().commit
    await collect(world, times=RetentionTimes())
    assert decisions(world) == []

    report = await _rerun_of_the_newest(world)

    assert report.error is None, report.error
    assert report.update is not None
    assert published in str(report.update.output["workspace"])
    assert report.update.output["result"] == {"run": 2, "text": ""}
    assert world.runs == 3, "it ran, and its result was dropped for that of the publication"


async def test_a_reset_before_it_makes_such_a_rerun_an_execution_of_its_own(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    await _published_and_ended_long_ago(world)
    await collect(world, times=RetentionTimes())

    await world.reset_task()
    await collect(world, times=RetentionTimes())
    report = await _rerun_of_the_newest(world)

    assert "another execution of this task published it" in str(report.error)
