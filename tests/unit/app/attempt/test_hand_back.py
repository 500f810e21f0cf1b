"""Attempts that end for something that is not the task's own failure give their row back."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.redelivery import release
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene

from perago.app.attempt.complete import Recorded
from perago.app.authoring.task_definition import TimeoutPolicy
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.errors import HandedBackTooOftenError
from perago.domain.hand_back import HAND_BACKS_MAX, HANDED_BACK, Cause
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest
from perago.ports.errors import LocalDiskError, UnavailableError
from perago.ports.task_body import BodyStopped
from perago.testing.faults import (
    Answer,
    Fault,
    LoseAnswer,
    Moment,
    Side,
    always,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
)

HAND_BACK = "queue.hand_back"
AWAY = UnavailableError("lakeFS: connection refused")
DOWNLOAD_FAILS = always(refuse("objects.download", AWAY))


async def started(tmp_path: Path, policy: PolicySetting = PolicySetting.SETTLED) -> AttemptScene:
    return await AttemptScene(tmp_path, policy).started()


async def test_the_redelivery_of_a_row_that_was_handed_back_publishes(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    first = await scene.next_attempt(DOWNLOAD_FAILS)
    assert (first.status, first.recorded) == ("HANDED_BACK", "recorded")
    (row,) = (await scene.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED
    assert "handed back (1 of 5): lakeFS: connection refused" in str(row.reason)

    await scene.finished()

    (row,) = (await scene.read()).attempts
    assert (row.snapshot.retry_count, row.snapshot.poll_count) == (0, 2)
    assert (row.snapshot.status, row.reason) == (AttemptStatus.COMPLETED, None)
    assert HANDED_BACK not in row.output_data
    assert (scene.runs, len(scene.publications())) == (1, 1)


async def test_a_row_waits_before_it_is_handed_out_again(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    await scene.next_attempt(DOWNLOAD_FAILS)
    before = scene.env.seconds
    story = await scene.next_attempt()
    assert 0 < story.events[0].seconds - before <= 10


async def test_five_hand_backs_in_a_row_and_then_it_fails_with_all_reasons(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    ends, report = list[str](), None
    for number in range(HAND_BACKS_MAX + 1):
        away = UnavailableError(f"outage {number}")
        report = await harness.report(always(refuse("objects.download", away)))
        ends.append(report.status)
        harness.clock.advance(1000)
    assert ends == ["HANDED_BACK"] * HAND_BACKS_MAX + ["FAILED"]
    # The log tells the end, and in its traceback what ended the last of the attempts.
    assert report is not None
    assert isinstance(report.error, HandedBackTooOftenError)
    assert "outage 5" in str(report.error.__cause__)
    failed, retry = (await harness.read()).attempts
    assert failed.output_data == {}
    assert all(f"outage {number}" in str(failed.reason) for number in range(6)), failed.reason
    assert "PRG-U002" in str(failed.reason)
    assert (retry.snapshot.retry_count, retry.output_data) == (1, {})
    await harness.finish()
    assert len(harness.publications()) == 1


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str)
async def test_the_documents_policies_fail_where_lakefs_is_away(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await started(tmp_path, policy)
    story = await scene.next_attempt(DOWNLOAD_FAILS)
    assert story.status == "FAILED"


async def test_a_full_disk_before_the_task_function_hands_the_row_back(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    full = LocalDiskError.of("/disk", OSError(28, "No space left on device"))
    story = await scene.next_attempt(always(refuse("objects.download", full)))
    assert story.status == "HANDED_BACK"
    forbidden = LocalDiskError.of("/disk", OSError(13, "Permission denied"))
    story = await scene.next_attempt(always(refuse("objects.download", forbidden)))
    assert story.status == "FAILED"


def lost_executor(nth: int = 1) -> Answer:
    text = "executor process was killed by SIGKILL; it had not begun edit"
    moment = Moment("body.run", Side.BEFORE, nth=nth)
    return Answer(moment, BodyStopped(text, Cause.EXECUTOR_LOST))


@pytest.mark.parametrize("policy", PolicySetting, ids=str)
async def test_an_executor_that_was_lost_before_the_function_spends_no_retry(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await started(tmp_path, policy)
    story = await scene.next_attempt(lost_executor())
    assert (story.status, scene.runs) == ("HANDED_BACK", 0)
    assert scene.repository.branch_names() == {"main"}
    await scene.finished()
    (row,) = (await scene.read()).attempts
    assert (row.snapshot.retry_count, row.snapshot.poll_count, scene.runs) == (0, 2, 1)


async def test_executors_that_are_lost_again_and_again_end_the_row(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    tries = range(HAND_BACKS_MAX + 1)
    ends = [(await scene.next_attempt(lost_executor())).status for _ in tries]
    assert ends == ["HANDED_BACK"] * HAND_BACKS_MAX + ["FAILED"]


async def test_an_execution_time_out_does_not_count_before_the_function(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    controls = scene.task.controls.model_copy(update={"timeout": TimeoutPolicy(seconds=3600)})
    await scene.env.register(replace(scene.task, controls=controls))
    assert (await scene.next_attempt(lost_executor())).status == "HANDED_BACK"


async def test_a_lost_executor_of_the_checks_leaves_the_outcome(tmp_path: Path) -> None:
    """The function has ended, so the next attempt on the host goes on with its directory."""

    def nothing(staged: object) -> None:
        del staged

    spec = WorkspaceSpec(prefix="data", checks=[nothing])
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=spec)
    harness.shared_root = tmp_path / "host"
    await harness.start()
    assert (await harness.report(lost_executor(nth=2))).status == "HANDED_BACK"
    harness.clock.advance(10)
    await harness.finish()
    (row,) = (await harness.read()).attempts
    assert (row.snapshot.poll_count, harness.runs, len(harness.publications())) == (2, 1, 1)


async def test_a_service_that_goes_away_after_the_task_function_fails_the_attempt(
    tmp_path: Path,
) -> None:
    scene = await started(tmp_path)
    story = await scene.next_attempt(always(refuse("objects.upload", AWAY)))
    assert (story.status, scene.runs) == ("FAILED", 1)


async def test_a_decision_is_resumed_by_the_redelivery_and_the_function_runs_once(
    tmp_path: Path,
) -> None:
    """The retry of a dead worker finds the decision and loses lakeFS: its row goes back too."""
    scene = await started(tmp_path)
    await scene.next_attempt(crash(after="tags.create"))
    story = await scene.next_attempt(always(refuse("commits.first_parents", AWAY)))
    assert (story.status, scene.runs) == ("HANDED_BACK", 1)
    await scene.finished()
    rows = (await scene.read()).attempts
    assert [row.snapshot.poll_count for row in rows] == [1, 2]
    assert (scene.runs, len(scene.publications())) == (1, 1)


@pytest.mark.parametrize("fault", [lose_answer(HAND_BACK), lose_request(HAND_BACK)], ids=str)
async def test_a_hand_back_without_an_answer_is_looked_for(tmp_path: Path, fault: Fault) -> None:
    scene = await started(tmp_path)
    sent: list[str] = []
    sends = always(meanwhile(lambda: sent.append(HAND_BACK), before=HAND_BACK))
    story = await scene.next_attempt(DOWNLOAD_FAILS, fault, sends)
    assert story.recorded == "recorded"
    assert len(sent) == (1 if isinstance(fault, LoseAnswer) else 2)
    (row,) = (await scene.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED


async def test_a_row_that_another_worker_has_gets_nothing(tmp_path: Path) -> None:
    scene = await started(tmp_path)
    taken: list[AttemptRecord] = []

    async def redeliver() -> None:
        (row,) = (await scene.read()).attempts
        await release(scene.operator.queue, row)
        taken.extend(await scene.operator.queue.poll(PollRequest(TASK, "another")))

    story = await scene.next_attempt(
        DOWNLOAD_FAILS, meanwhile(redeliver, before="objects.list_page")
    )

    assert story.recorded == "superseded"
    (other,) = taken
    (row,) = (await scene.read()).attempts
    assert row.snapshot == other.snapshot


async def test_a_row_that_another_worker_has_after_a_moment_gets_nothing(tmp_path: Path) -> None:
    """Younger attempts end without a read. A hand back takes the row from whoever has it."""
    scene = await started(tmp_path)

    async def redeliver() -> None:
        (row,) = (await scene.read()).attempts
        await release(scene.operator.queue, row)
        assert await scene.operator.queue.poll(PollRequest(TASK, "another"))

    full = LocalDiskError.of("/disk", OSError(28, "No space left on device"))
    taken = meanwhile(redeliver, before="objects.list_page")
    story = await scene.next_attempt(taken, refuse("objects.download", full))
    assert story.recorded == "superseded"
    (row,) = (await scene.read()).attempts
    assert (row.snapshot.status, row.snapshot.poll_count) == (AttemptStatus.IN_PROGRESS, 2)


async def test_a_workflow_that_ended_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    worker = harness.worker([DOWNLOAD_FAILS])
    record = await worker.poll(TASK)
    assert record is not None
    await harness.operator.workflows.terminate(harness.workflow, "by hand")
    report = await harness.drive(worker.run(record))
    assert report.recorded is Recorded.SUPERSEDED
    assert (await harness.read()).status is WorkflowStatus.TERMINATED
