"""`perago reset-task`: what was decided or published before counts for no later attempt."""

from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params
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


def _later_release(scene: AttemptScene) -> TaskDefinition:
    @task(name=TASK, owner_email="data@example.com", workspace=scene.spec)
    def edit(workspace: Path, params: Params) -> LaterResult:
        scene.runs += 1
        (workspace / "out.txt").write_text(f"later {params.text}")
        return LaterResult(number=scene.runs)

    definition: TaskDefinition = vars(edit)["__perago_task__"]
    return definition


async def _started(tmp_path: Path) -> AttemptScene:
    return await AttemptScene(tmp_path, PolicySetting.SETTLED).started()


async def _ended(scene: AttemptScene) -> None:
    await scene.operator.workflows.terminate(scene.workflow, "the operator looks at it")


async def _harness(tmp_path: Path) -> AttemptHarness:
    return await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()


async def _refused_result(scene: AttemptScene) -> None:
    """A release that reports something else meets the decision of the one before it."""
    await scene.env.register(_later_release(scene))
    story = await scene.next_attempt()
    assert "PRG-R003" in str(story.reason)
    assert "perago reset-task" in str(story.reason)


async def test_the_remedy_of_a_result_that_fits_no_more_computes_again(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    await _refused_result(scene)
    await _ended(scene)

    await scene.reset_task()
    await scene.operator.workflows.retry(scene.workflow)
    story = await scene.next_attempt()

    assert story.accepted, story.reason
    assert story.output["result"] == {"number": 2}
    assert scene.repository.files()["data/out.txt"] == b"later new"
    assert len(scene.publications()) == 1


async def test_a_publication_of_before_is_not_adopted_and_the_refusal_says_why(
    tmp_path: Path,
) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(PUBLISHED)
    published = scene.repository.head().commit
    await _refused_result(scene)
    await _ended(scene)

    reset = await scene.reset_task()
    await scene.operator.workflows.retry(scene.workflow)
    story = await scene.next_attempt()

    assert [each.record.commit for each in reset.published] == [published]
    assert story.status == AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert f"current head is {published}" in str(story.reason)
    assert "another execution of this task published it" in str(story.reason)
    assert "start a new workflow from the current head" in str(story.reason)


async def test_the_chain_that_a_rerun_of_a_retry_began_is_the_one_that_is_reset(
    tmp_path: Path,
) -> None:
    """Its rows lead back to the first one; only marks tell that it is another chain."""
    scene = await _started(tmp_path)
    for _ in range(2):  # an attempt and its retry
        await scene.next_attempt(crash(before="branch"))
    (_, retry) = (await scene.read()).attempts
    await _ended(scene)
    await scene.operator.workflows.rerun(scene.workflow, retry.snapshot.task_id)
    await scene.next_attempt(PUBLISHED)
    published = scene.repository.head().commit
    assert published != scene.input
    await _ended(scene)

    await scene.reset_task()
    await scene.operator.workflows.retry(scene.workflow)
    story = await scene.next_attempt()

    assert "another execution of this task published it" in str(story.reason)


async def test_a_rerun_on_the_current_head_computes_again(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(PUBLISHED)
    published = scene.repository.head().commit
    await _refused_result(scene)
    await _ended(scene)

    await scene.reset_task()
    (*_, newest) = (await scene.read()).attempts
    given = {**newest.input_data, "workspace": scene.workspace(ref=published)}
    scene.clock.advance(1)
    await scene.operator.workflows.rerun(scene.workflow, newest.snapshot.task_id, given)
    story = await scene.next_attempt()

    assert story.accepted, story.reason
    assert len(scene.publications()) == 2
    assert scene.repository.head().parents == (published,)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_every_reset_begins_anew(tmp_path: Path, times: int) -> None:
    scene = await _started(tmp_path)
    for number in range(times):
        await scene.next_attempt(UNPUBLISHED)
        assert scene.runs == number + 1, "a retry after the reset runs the body"
        await _ended(scene)
        await scene.reset_task()
        await scene.operator.workflows.retry(scene.workflow)

    story = await scene.next_attempt()

    assert story.accepted, story.reason
    assert scene.runs == times + 1
    assert len(scene.publications()) == 1


async def test_all_retries_after_a_reset_are_one_execution(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    await _ended(scene)
    await scene.reset_task()
    await scene.operator.workflows.retry(scene.workflow)
    await scene.next_attempt(UNPUBLISHED)

    workflow = await scene.finished()

    assert workflow.status is WorkflowStatus.COMPLETED
    assert scene.runs == 2


async def _started_fork(harness: AttemptHarness) -> None:
    """A workflow with two branches, `left` and `right`, of the same task."""
    await harness.start()
    await _ended(harness)
    place: dict[str, object] = {"workspace": "${workflow.input.workspace}", "params": {}}

    def branch(name: str) -> list[dict[str, object]]:
        row = {"name": TASK, "taskReferenceName": name, "type": "SIMPLE"}
        return [{**row, "inputParameters": place}]

    fork: dict[str, object] = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN"}
    fork["forkTasks"] = [branch("left"), branch("right")]
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}
    join_on: dict[str, object] = {**join, "joinOn": ["left", "right"]}
    definition = {"name": "forked", "version": 1, "schemaVersion": 2, "tasks": [fork, join_on]}
    await harness.operator.workflows.put_definition(definition)
    given = {"workspace": harness.workspace()}
    harness.workflow = await harness.operator.workflows.start("forked", given)


async def test_a_row_that_is_handed_out_again_begins_anew(tmp_path: Path) -> None:
    """A rerun of its sibling brings a cancelled row back as it was, with its scheduled time."""
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    await _started_fork(harness)
    left = await harness.worker().poll(TASK)
    right = await harness.worker().poll(TASK)
    assert left is not None
    assert right is not None
    assert (left.snapshot.reference_name, right.snapshot.reference_name) == ("left", "right")
    with suppress(ProcessDied):
        await harness.drive(harness.worker([PUBLISHED]).run(left))
    published = harness.repository.head().commit
    assert published != harness.input
    await _ended(harness)
    await harness.reset_task("left")
    await harness.operator.workflows.rerun(harness.workflow, right.snapshot.task_id)

    again = await harness.worker().poll(TASK)
    assert again is not None
    assert again.snapshot.task_id == left.snapshot.task_id
    assert (again.snapshot.retry_count, again.snapshot.poll_count) == (0, 2)
    report = await harness.drive(harness.worker().run(again))

    assert harness.runs == 2, "it computes, and does not adopt what was published before"
    assert "another execution of this task published it" in str(report.error)


async def test_what_a_reset_removes_and_leaves(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    (decision,) = scene.repository.tags()
    (branch,) = scene.repository.branch_names() - {"main"}
    await _ended(scene)

    reset = await scene.reset_task()

    assert reset.decisions == [decision]
    assert reset.branches == [branch]
    assert reset.published == []
    assert list(scene.repository.tags()) == reset.marks
    assert scene.repository.branch_names() == {"main"}
    assert scene.repository.head().commit == scene.input


async def test_another_task_of_the_workflow_keeps_what_it_decided(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    before = scene.repository.tags()
    await _ended(scene)

    reset = await scene.reset_task("another")

    assert (reset.marks, reset.decisions) == ([], [])
    assert scene.repository.tags() == before


@pytest.mark.parametrize("says", ["nothing", "a wrong iteration"])
async def test_a_decision_with_strange_metadata_is_removed(tmp_path: Path, says: str) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    (tag,) = scene.repository.tags()
    metadata = {LOGICAL_TASK_KEY: f"{scene.workflow}/{TASK}/first"}
    made = scene.repository.commit({"x": b"x"}, metadata=metadata if says != "nothing" else {})
    scene.repository.delete_tag(tag)
    scene.repository.tag(tag, made)
    await _ended(scene)

    reset = await scene.reset_task()

    assert reset.decisions == [tag]


async def test_decisions_of_a_workflow_that_conductor_forgot_are_removed(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    (decision,) = scene.repository.tags()
    scene.conductor = MemoryConductor(VirtualClock())
    scene.operator = conductor_installation(scene.conductor, WorkerHandle())

    reset = await scene.reset_task()

    assert (reset.decisions, reset.marks) == ([decision], [])


async def test_a_reset_reads_the_decisions_of_its_workflow_only(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    for _ in range(3):
        await scene.next_attempt(UNPUBLISHED)
        await scene.start()
    await scene.next_attempt(UNPUBLISHED)
    await _ended(scene)
    injector = FaultInjector()

    reset = await scene.reset_task(injector=injector)

    assert len(reset.decisions) == 1
    assert len(scene.repository.tags()) == 4, "three decisions of others, and the mark"
    assert injector.calls["commits.read"] <= 3


async def test_a_workflow_that_is_brought_back_beside_a_reset_is_reported(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(UNPUBLISHED)
    await _ended(scene)
    brought_back = meanwhile(lambda: scene.conductor.retry(scene.workflow), after="tags.create")

    with pytest.raises(WorkflowRunsError, match="run `perago reset-task` again"):
        await scene.reset_task(injector=FaultInjector([brought_back]))
    await _ended(scene)
    await scene.reset_task()
    await scene.operator.workflows.retry(scene.workflow)

    story = await scene.next_attempt()
    assert story.accepted, story.reason
    assert scene.runs == 2


async def _published_and_ended_long_ago(harness: AttemptHarness) -> None:
    """A retry published; its workflow ended eight days ago."""
    await harness.attempt(harness.worker([crash(before="branch")]))
    await harness.lose_lease()
    await harness.attempt(harness.worker([PUBLISHED]))
    await _ended(harness)
    harness.clock.advance(8 * DAY)


async def _rerun_of_the_newest(harness: AttemptHarness) -> AttemptReport:
    (*_, newest) = (await harness.read()).attempts
    await harness.operator.workflows.rerun(harness.workflow, newest.snapshot.task_id)
    return await harness.report()


async def test_a_pass_leaves_the_reset_of_a_workflow_that_ended_long_ago(tmp_path: Path) -> None:
    """The operator resets, a pass runs, and only then the operator retries."""
    harness = await _harness(tmp_path)
    await _published_and_ended_long_ago(harness)

    await harness.reset_task()
    await collect(harness, times=RetentionTimes())
    await harness.operator.workflows.retry(harness.workflow)
    report = await harness.report()

    assert "another execution of this task published it" in str(report.error)


async def test_a_reset_that_lands_while_a_pass_runs_keeps_the_marks_it_stands_on(
    tmp_path: Path,
) -> None:
    """The pass has listed the marks by then; without them a retry finds another chain."""
    harness = await _harness(tmp_path)
    await _published_and_ended_long_ago(harness)
    (*_, newest) = (await harness.read()).attempts
    now = int(harness.clock.now().timestamp() * 1000)
    mark = attempt_mark_tag(newest.snapshot, AttemptMark("0" * 32, now))
    marks = {name for name in litter(harness) if name.startswith("perago-attempt-")}
    assert marks

    def reset() -> None:
        harness.repository.tag(mark, harness.input)

    listed = meanwhile(reset, after="queue.read_workflow")
    await collect(harness, times=RetentionTimes(), faults=[listed])
    assert {*marks, mark} <= set(litter(harness))


async def test_a_reset_goes_when_it_is_as_old_as_a_decision_may_be(tmp_path: Path) -> None:
    harness = await _harness(tmp_path)
    await _published_and_ended_long_ago(harness)

    await harness.reset_task()
    harness.clock.advance(8 * DAY)
    await collect(harness, times=RetentionTimes())

    assert litter(harness) == []


async def test_a_rerun_of_a_retry_without_its_marks_adopts_what_its_task_published(
    tmp_path: Path,
) -> None:
    """The limit that docs/guarantees.md states: nothing tells such a rerun from a retry."""
    harness = await _harness(tmp_path)
    await _published_and_ended_long_ago(harness)
    published = harness.repository.head().commit
    await collect(harness, times=RetentionTimes())
    assert decisions(harness) == []

    report = await _rerun_of_the_newest(harness)

    assert report.error is None, report.error
    assert report.update is not None
    assert published in str(report.update.output["workspace"])
    assert report.update.output["result"] == {"run": 2, "text": ""}
    assert harness.runs == 3, "it ran, and its result was dropped for that of the publication"


async def test_a_reset_before_it_makes_such_a_rerun_an_execution_of_its_own(tmp_path: Path) -> None:
    harness = await _harness(tmp_path)
    await _published_and_ended_long_ago(harness)
    await collect(harness, times=RetentionTimes())

    await harness.reset_task()
    await collect(harness, times=RetentionTimes())
    report = await _rerun_of_the_newest(harness)

    assert "another execution of this task published it" in str(report.error)
