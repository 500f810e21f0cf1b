"""The row is read again before an end is sent: whoever lost it says nothing about it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params

from perago.adapters.memory.conductor_server import Race
from perago.app.attempt.complete import Recorded
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.guardrails import require_file
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptStatus, FenceWidth, WorkflowStatus
from perago.domain.errors import StaleAttemptError, TaskFailed, TaskTerminalError
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest
from perago.ports.errors import UnavailableError
from perago.ports.workspace import Phase
from perago.testing.faults import always, lose_answer, meanwhile, refuse

COMPLETE = "queue.complete"
LOOK = "queue.read_workflow"
WIDTHS = pytest.mark.parametrize("width", list(FenceWidth), ids=str)


def _declare(body: Callable[[Params], Params], spec: WorkspaceSpec | None) -> TaskDefinition:
    """A task without a workspace, or one that reads its workspace; `body` makes the result."""
    if spec is None:

        @task(name=TASK, owner_email="data@example.com")
        def free(params: Params) -> Params:
            return body(params)

        definition: TaskDefinition = vars(free)["__perago_task__"]
        return definition

    @task(name=TASK, owner_email="data@example.com", workspace=spec)
    def bound(workspace: Path, params: Params) -> Params:
        del workspace
        return body(params)

    declared: TaskDefinition = vars(bound)["__perago_task__"]
    return declared


async def _started(
    tmp_path: Path, body: Callable[[Params], Params], spec: WorkspaceSpec | None
) -> AttemptHarness:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    harness.task = _declare(body, spec)
    await harness.start()
    return harness


def _add_one(workspace: Path, run: int) -> None:
    (workspace / "out.txt").write_text(f"run {run}")


async def _poll(worker: AttemptWorker) -> AttemptRecord:
    record = await worker.poll(TASK)
    assert record is not None
    return record


def _rerun(scene: AttemptScene, task_input: Mapping[str, object] | None = None) -> None:
    """An operator terminates the workflow and runs its row again; two seconds have passed."""
    scene.clock.advance(2)
    (row,) = scene.conductor.state.runs[scene.workflow].snapshot().tasks
    scene.conductor.terminate(scene.workflow, "corrected")
    scene.conductor.rerun(scene.workflow, row.task_id, task_input)


def _assert_not_sent(report: AttemptReport | None) -> None:
    assert report is not None
    assert report.update is None
    assert report.recorded is Recorded.SUPERSEDED


async def _row(scene: AttemptScene) -> AttemptRecord:
    (row,) = (await scene.read()).attempts
    return row


@WIDTHS
@pytest.mark.parametrize("raised", [TaskFailed("no"), TaskTerminalError("never"), ValueError("x")])
@pytest.mark.parametrize("spec", [None, WorkspaceSpec(prefix="data")], ids=["free", "workspace"])
async def test_a_body_that_fails_after_its_row_was_rerun_does_not_end_the_rerun(
    tmp_path: Path, spec: WorkspaceSpec | None, raised: Exception, width: FenceWidth
) -> None:
    def body(params: Params) -> Params:
        if len(harness.workers) == 1:
            _rerun(harness)
            raise raised
        return params

    harness = await _started(tmp_path, body, spec)
    worker = harness.worker()
    settings = replace(worker.settings, fence_width=width)

    report = await harness.attempt(replace(worker, settings=settings))

    _assert_not_sent(report)
    assert (await _row(harness)).snapshot.status is AttemptStatus.SCHEDULED
    assert (await harness.finish()).status is WorkflowStatus.COMPLETED


@WIDTHS
async def test_a_late_success_does_not_end_the_rerun_that_another_worker_has_begun(
    tmp_path: Path, width: FenceWidth
) -> None:
    """Its row has the same id, retry count and status: only what tells the two polls apart does."""

    def body(params: Params) -> Params:
        _rerun(harness)
        (row,) = harness.conductor.poll(PollRequest(TASK, "another"))
        assert row.snapshot.status is AttemptStatus.IN_PROGRESS
        return params

    harness = await _started(tmp_path, body, None)
    worker = harness.worker()
    settings = replace(worker.settings, fence_width=width)

    report = await harness.attempt(replace(worker, settings=settings))

    _assert_not_sent(report)
    snapshot = (await _row(harness)).snapshot
    assert (snapshot.status, snapshot.worker_id) == (AttemptStatus.IN_PROGRESS, "another")


async def test_a_guardrail_that_fails_after_a_rerun_does_not_end_the_rerun(
    tmp_path: Path,
) -> None:
    spec = WorkspaceSpec(prefix="data", pre=[require_file("missing.txt")])
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    scene.task = _declare(lambda params: params, spec)
    await scene.start()

    story = await scene.next_attempt(meanwhile(lambda: _rerun(scene), after="objects.list_page"))

    assert (story.status, story.recorded) == ("NOT SENT", Recorded.SUPERSEDED)
    assert (await _row(scene)).snapshot.status is AttemptStatus.SCHEDULED


@WIDTHS
@pytest.mark.parametrize(
    "spec", [None, WorkspaceSpec(prefix="data", read_only=True)], ids=["free", "read-only"]
)
async def test_a_success_on_the_old_input_is_not_the_output_of_a_rerun_on_a_new_one(
    tmp_path: Path, spec: WorkspaceSpec | None, width: FenceWidth
) -> None:
    corrected = "corrected"

    def body(params: Params) -> Params:
        if params.text != corrected:
            row = {"workspace": harness.workspace(ref=newer), "params": {"text": corrected}}
            _rerun(harness, row)
        return params

    harness = await _started(tmp_path, body, spec)
    newer = harness.human("data/kept.txt", b"newer")
    worker = harness.worker()
    settings = replace(worker.settings, fence_width=width)

    _assert_not_sent(await harness.attempt(replace(worker, settings=settings)))

    workflow = await harness.finish()
    assert workflow.status is WorkflowStatus.COMPLETED
    output = workflow.attempts[-1].output_data
    assert output["result"] == {"text": corrected}
    assert spec is None or output["workspace"] == harness.workspace(ref=newer)


@pytest.mark.parametrize("policy", list(PolicySetting), ids=str)
async def test_a_publication_that_took_long_does_not_complete_the_rerun_of_its_row(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """The last fence passed before the merge; the row was handed on while the merge ran."""
    scene = await AttemptScene(tmp_path, policy, body=_add_one).started()

    story = await scene.next_attempt(meanwhile(lambda: _rerun(scene), after="merge"))

    assert (story.status, story.recorded) == ("NOT SENT", Recorded.SUPERSEDED)
    assert story.facts_of(Phase.ENDED)["code"] == StaleAttemptError.code
    assert (await _row(scene)).snapshot.status is AttemptStatus.SCHEDULED
    assert len(scene.publications()) == 1


async def test_a_row_that_a_heartbeat_brought_back_is_not_failed_beside_its_retry(
    tmp_path: Path,
) -> None:
    """On the real server such a FAILED schedules a further retry beside the healthy one."""

    def body(params: Params) -> Params:
        del params
        harness.conductor.race = Race.AFTER_DECISION
        harness.conductor.begin_extend_lease(record.snapshot)
        harness.clock.advance(harness.response_seconds + 1)
        harness.conductor.decide(harness.workflow)
        raise TaskFailed("late")

    harness = await _started(tmp_path, body, None)
    worker = harness.worker()
    record = await _poll(worker)

    report = await harness.drive(worker.run(record))

    _assert_not_sent(report)
    old, retry = (await harness.read()).attempts
    assert old.snapshot.status is AttemptStatus.IN_PROGRESS, "the heartbeat brought it back"
    assert retry.snapshot.status is AttemptStatus.SCHEDULED


@pytest.mark.parametrize(("seconds", "looks"), [(0.9, 0), (1.0, 1)])
async def test_only_an_attempt_of_a_second_or_more_is_looked_at_before_its_end(
    tmp_path: Path, seconds: float, looks: int
) -> None:
    def body(params: Params) -> Params:
        harness.clock.advance(seconds)
        return params

    harness = await _started(tmp_path, body, None)
    report = await harness.report()
    assert report.recorded is not Recorded.SUPERSEDED
    assert harness.workers[0].calls[LOOK] == looks


async def test_the_end_waits_for_a_look_that_is_not_answered(tmp_path: Path) -> None:
    def body(params: Params) -> Params:
        harness.clock.advance(2)
        return params

    harness = await _started(tmp_path, body, None)
    refusals = [refuse(LOOK, UnavailableError("away"), nth=nth) for nth in (1, 2, 3)]

    report = await harness.report(*refusals)

    assert report.recorded is Recorded.RECORDED
    assert harness.workers[0].calls[COMPLETE] == 1


async def test_an_end_that_landed_without_an_answer_is_recorded_and_not_stale(
    tmp_path: Path,
) -> None:
    """The look before the second try finds the row ended: by the first try."""

    def body(params: Params) -> Params:
        harness.clock.advance(2)
        raise TaskFailed(params.text)

    harness = await _started(tmp_path, body, None)
    silence = UnavailableError("away")
    lost = [refuse("queue.read_attempt", silence, nth=nth) for nth in (1, 2)]
    worker = harness.worker([*lost, lose_answer(COMPLETE)])

    report = await harness.report_of(worker)

    assert report.update is not None
    assert report.recorded is Recorded.RECORDED
    assert harness.workers[0].calls[COMPLETE] == 1


async def test_a_row_that_cannot_be_read_is_not_ended_blindly(tmp_path: Path) -> None:
    def body(params: Params) -> Params:
        scene.clock.advance(2)
        return params

    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    scene.task = _declare(body, None)
    await scene.start()
    story = await scene.next_attempt(always(refuse(LOOK, UnavailableError("away"))))

    assert story.recorded == Recorded.UNKNOWN
    assert (await _row(scene)).snapshot.status is AttemptStatus.IN_PROGRESS
