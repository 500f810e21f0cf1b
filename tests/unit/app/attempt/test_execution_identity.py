"""Which execution an attempt belongs to: when that is asked, and what it leaves in lakeFS."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Result, assert_accepted

from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.policy import PolicySetting
from perago.ports.errors import AccessDeniedError, UnavailableError
from perago.ports.workspace import Phase
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import (
    OPERATIONS,
    Fault,
    always,
    arrive_late,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
)

CREATE_TAG = "tags.create"


@pytest.mark.parametrize(
    "policy", [PolicySetting.AUTO, PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str
)
async def test_a_retry_without_a_fence_needs_no_tags(tmp_path: Path, policy: PolicySetting) -> None:
    scene = await AttemptScene(tmp_path, policy, fenced=False).started()
    await scene.next_attempt(crash(after="commits.commit"))

    of_tags = [operation for operation in OPERATIONS if operation.startswith("tags.")]
    no_right = AccessDeniedError("no right to tags")
    story = await scene.next_attempt(*(always(refuse(each, no_right)) for each in of_tags))

    assert story.accepted, story.reason
    assert scene.repository.tags() == {}


@pytest.mark.parametrize("retried", [False, True], ids=["first attempt", "retry"])
async def test_a_branch_as_input_is_refused_before_anything_is_written(
    tmp_path: Path, *, retried: bool
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    await harness.start(harness.workspace(ref="main"))
    if retried:
        await harness.attempt(harness.worker([crash(after="repositories.read")]))
        await harness.lose_lease()

    no_canary, no_mark = crash(before="branches.create"), crash(before=CREATE_TAG)
    report = await harness.report(always(no_canary), always(no_mark))

    assert "workspace ref main is not a commit id" in reason_of(report)
    assert report.status == AttemptStatus.FAILED
    assert harness.repository.tags() == {}


async def _settled(tmp_path: Path, isolation: str = "branch") -> AttemptHarness:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "isolation": isolation})
    return await AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=spec).started()


async def _retry_with(harness: AttemptHarness, **changes: object) -> AttemptReport:
    """The next attempt of the chain, whose input expressions resolved to something else."""
    await harness.lose_lease()
    worker = harness.worker()
    record = await worker.poll(TASK)
    assert record is not None
    assert record.snapshot.retry_count > 0
    return await harness.drive(worker.run(_given(record, **changes)))


def _given(record: AttemptRecord, **changes: object) -> AttemptRecord:
    return replace(record, input_data={**record.input_data, **changes})


def _output(report: AttemptReport) -> object:
    assert report.error is None, report.error
    assert report.update is not None
    return report.update.output["workspace"]


def _marks(scene: AttemptScene) -> list[str]:
    return [tag for tag in scene.repository.tags() if tag.startswith("perago-attempt-")]


async def test_a_decision_for_other_params_is_not_finished(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    await harness.attempt(harness.worker([crash(before="merge")]))

    report = await _retry_with(harness, params={"text": "other"})

    assert report.update is not None
    assert report.update.output["result"] == {"run": 2, "text": ""}
    assert harness.repository.files()["data/out.txt"] == b"other 2"
    assert len(harness.publications()) == 1


@pytest.mark.parametrize("isolation", ["branch", "prefix"])
@pytest.mark.parametrize("moved", [False, True], ids=["same commit", "another commit"])
async def test_a_publication_for_other_params_is_a_terminal_refusal(
    tmp_path: Path, isolation: str, *, moved: bool
) -> None:
    harness = await _settled(tmp_path, isolation)
    await harness.attempt(harness.worker([crash(after="merge")]))
    ref = harness.repository.head().commit if moved else harness.input

    report = await _retry_with(
        harness, params={"text": "other"}, workspace=harness.workspace(ref=ref)
    )

    assert report.status == AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-F026" in reason_of(report)
    assert "start a new workflow from the current head" in reason_of(report)
    assert harness.runs == 1
    assert len(harness.publications()) == 1


class LaterParams(BaseModel):
    """The parameters of a later release: another default, and one field more."""

    text: str = "newer"
    more: int = 1


async def test_a_release_that_changes_defaults_changes_no_execution(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(before="merge"))

    @task(name=TASK, owner_email="data@example.com", workspace=scene.spec)
    def edit(workspace: Path, params: LaterParams) -> Result:
        raise AssertionError((workspace, params))

    await scene.env.register(edit)
    workflow = await scene.finished()

    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
    assert scene.runs == 1


async def test_an_operators_params_for_a_waiting_attempt_are_computed(tmp_path: Path) -> None:
    """No worker polled the attempt that he reruns, so it counts from the first one."""
    harness = await _settled(tmp_path)
    await harness.attempt(harness.worker([crash(before="merge")]))
    await harness.lose_lease()
    (*_, waiting) = (await harness.read()).attempts
    await harness.operator.workflows.terminate(harness.workflow, "other params")
    given = {**waiting.input_data, "params": {"text": "other"}}
    await harness.operator.workflows.rerun(harness.workflow, waiting.snapshot.task_id, given)

    report = await harness.report()

    assert report.error is None, report.error
    assert harness.repository.files()["data/out.txt"] == b"other 2"


@pytest.mark.parametrize("isolation", ["branch", "prefix"])
async def test_an_input_that_is_the_abandoned_publication_is_the_output(
    tmp_path: Path, isolation: str
) -> None:
    """The input expression names the current head, which the attempt before has moved."""
    harness = await _settled(tmp_path, isolation)
    await harness.attempt(harness.worker([crash(after="merge")]))
    head = harness.repository.head().commit

    report = await _retry_with(harness, workspace=harness.workspace(ref=head))

    assert _output(report) == harness.workspace(ref=head)
    assert report.update is not None
    assert report.update.output["result"] == {"run": 1, "text": ""}
    assert len(harness.publications()) == 1
    assert harness.runs == 1


async def test_a_no_op_is_not_accepted_on_top_of_an_abandoned_publication(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    await harness.attempt(harness.worker([crash(after="merge")]))
    head = harness.repository.head().commit
    harness.changes = False

    report = await _retry_with(harness, workspace=harness.workspace(ref=head))

    assert report.update is not None
    assert report.update.output["result"] == {"run": 1, "text": ""}, "and not that of a no-op"


async def test_a_decision_on_another_input_that_was_not_published_is_left(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    await harness.attempt(harness.worker([crash(before="merge")]))
    later = harness.human()

    report = await _retry_with(harness, workspace=harness.workspace(ref=later))

    assert _output(report) == harness.workspace(ref=harness.repository.head().commit)
    assert harness.runs == 2
    assert len(harness.publications()) == 1


async def test_a_publication_on_another_branch_is_a_terminal_refusal(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    harness.repository.branch("dev")
    await harness.attempt(harness.worker([crash(after="merge")]))

    report = await _retry_with(harness, workspace=harness.workspace(branch="dev"))

    assert "PRG-F026" in reason_of(report)
    assert harness.runs == 1


async def test_an_open_decision_for_another_branch_is_a_terminal_refusal(tmp_path: Path) -> None:
    """What a retry publishes elsewhere does not move the branch on which that one still fits."""
    harness = await _settled(tmp_path)
    harness.repository.branch("dev")
    await harness.attempt(harness.worker([crash(before="merge")]))

    report = await _retry_with(harness, workspace=harness.workspace(branch="dev"))

    assert "PRG-F008" in reason_of(report)
    assert harness.runs == 1
    assert harness.repository.head("dev").commit == harness.input


async def test_a_decision_whose_branch_has_moved_is_not_in_the_way(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    harness.repository.branch("dev")
    await harness.attempt(harness.worker([crash(before="merge")]))
    harness.human()

    report = await _retry_with(harness, workspace=harness.workspace(branch="dev"))

    assert report.error is None
    assert harness.repository.head("dev").commit != harness.input


async def _run_polled(
    harness: AttemptHarness, worker: AttemptWorker, record: AttemptRecord
) -> None:
    """Run one attempt of a process that dies on the way."""
    with suppress(ProcessDied):
        await harness.drive(worker.run(record))


async def test_a_decision_whose_branch_is_gone_was_not_published(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    harness.repository.branch("dev")
    worker = harness.worker([crash(after="merge")])
    record = await worker.poll(TASK)
    assert record is not None
    dev = _given(record, workspace=harness.workspace(branch="dev"))
    await _run_polled(harness, worker, dev)
    harness.repository.delete_branch("dev")

    report = await _retry_with(harness)

    assert report.error is None, report.error
    assert len(harness.publications()) == 1


async def _rerun_newest(scene: AttemptScene) -> None:
    """An operator ends the workflow and starts it again from its newest attempt."""
    newest = (await scene.read()).attempts[-1].snapshot
    await scene.operator.workflows.terminate(scene.workflow, "once more")
    scene.clock.advance(1)
    await scene.operator.workflows.rerun(scene.workflow, newest.task_id)


async def test_an_attempt_that_is_stale_leaves_no_mark(tmp_path: Path) -> None:
    """It stood still between its poll and its mark; meanwhile its row was rerun."""
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(before="function"))
    rerun = meanwhile(lambda: _rerun_newest(scene), before="fence")

    story = await scene.next_attempt(rerun)

    assert "is stale" in str(story.reason)
    assert _marks(scene) == []


@pytest.mark.parametrize("nth", [1, 2], ids=["of the first row", "of its own row"])
async def test_a_mark_that_lands_after_a_rerun_splits_no_chain(tmp_path: Path, nth: int) -> None:
    """The row is rerun while its mark is on the wire; the rerun decides, then the mark lands."""
    harness = await _settled(tmp_path)
    await harness.attempt(harness.worker([crash(before="branches.create")]))
    await harness.lose_lease()
    await harness.attempt(
        harness.worker([arrive_late(CREATE_TAG, nth=nth), crash(before=CREATE_TAG, nth=nth + 1)])
    )
    late = harness.workers[-1]
    await _rerun_newest(harness)
    await harness.attempt(harness.worker([crash(before="merge")]))
    assert harness.runs == 1
    await late.arrive_late()

    workflow = await harness.finish()

    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
    assert harness.runs == 1, "the next retry finishes what the rerun decided"
    await assert_accepted(harness)


async def test_a_rerun_of_a_retry_that_was_seen_working_computes_anew(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(before="function"))
    await scene.next_attempt(crash(before="merge"))
    assert scene.runs == 1
    await _rerun_newest(scene)

    story = await scene.next_attempt()

    assert story.accepted, story.reason
    assert scene.runs == 2
    assert len(scene.publications()) == 1


MARK_TROUBLES: Sequence[Fault] = [
    fault
    for nth in (1, 2)
    for fault in (
        lose_answer(CREATE_TAG, nth=nth),
        lose_request(CREATE_TAG, nth=nth),
        refuse(CREATE_TAG, UnavailableError("down"), nth=nth),
    )
]


@pytest.mark.parametrize("trouble", MARK_TROUBLES, ids=str)
async def test_a_mark_without_an_answer_is_put_again(tmp_path: Path, trouble: Fault) -> None:
    """The first tags of a retry are marks; without them a rerun looks like a retry."""
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(before="function"))
    story = await scene.next_attempt(trouble)
    assert story.accepted, story.reason
    assert len(_marks(scene)) == 2, "that of the first row, and its own"


async def test_a_conductor_that_names_no_predecessor_is_logged_once(tmp_path: Path) -> None:
    harness = await _settled(tmp_path)
    worker = harness.worker()
    for _ in range(2):  # two workflows, each with a retry
        await harness.attempt(harness.worker([crash(before="branches.create")]))
        await harness.lose_lease()
        record = await worker.poll(TASK)
        assert record is not None
        alone = replace(record, snapshot=replace(record.snapshot, retried_task_id=None))
        await harness.drive(worker.run(alone))
        await harness.start(harness.workspace(ref=harness.repository.head().commit))

    warned = [facts["warning"] for phase, facts in worker.progress.events if phase is Phase.WARNED]
    assert len([text for text in warned if "retriedTaskId" in str(text)]) == 1
