"""The checkpoints of a chain go with its decision, whichever way an attempt came to that."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.dead_owners import let_locks_go
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene

import perago
from perago import TaskFailed, WorkspaceSpec
from perago.app.authoring.checkpoint_copies import put_copy, survey
from perago.domain.attempt import WorkflowStatus
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX, CHECKPOINT_FOLDER
from perago.domain.policy import PolicySetting
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, TaskBody
from perago.testing.faults import Fault, always, crash, lose_answer, lose_request, unavailable


def _checkpoint_and_fail_once(workspace: Path, run: int) -> None:
    (workspace / "out.txt").write_text(f"new {run}")
    perago.current_attempt().checkpoint(workspace)
    if run == 1:
        raise TaskFailed("once")


def checkpoints(scene: AttemptScene) -> list[str]:
    names = scene.repository.branch_names()
    return sorted(name for name in names if name.startswith(CHECKPOINT_BRANCH_PREFIX))


async def one_failed_and_one_died(root: Path, *faults: Fault) -> AttemptHarness:
    """A first attempt that failed behind its checkpoint, and a retry that died of these faults."""
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    harness = AttemptHarness(root, PolicySetting.SETTLED, spec=spec, body=_checkpoint_and_fail_once)
    harness.shared_root = root / "host"
    await harness.start()
    assert (await harness.report()).error is not None
    assert await harness.attempt(harness.worker(faults)) is None
    let_locks_go(harness.shared_root)
    await harness.lose_lease()
    assert (len(checkpoints(harness)), harness.runs) == (1, 2)
    return harness


@pytest.mark.parametrize("died", [crash(before="compare"), crash(after="decide")], ids=str)
async def test_an_attempt_that_recovers_or_resumes_removes_them(
    tmp_path: Path, died: Fault
) -> None:
    harness = await one_failed_and_one_died(tmp_path, died)
    report = await harness.report()
    assert (report.error, harness.runs) == (None, 2)
    assert harness.repository.branch_names() == {"main"}


async def test_an_attempt_that_adopts_removes_those_of_the_other_input(tmp_path: Path) -> None:
    harness = await one_failed_and_one_died(tmp_path, crash(after="merge"))
    later = harness.human("elsewhere/later.txt")
    worker = harness.worker()
    record = await worker.poll(TASK)
    assert record is not None
    given = {**record.input_data, "workspace": harness.workspace(ref=later)}
    report = await harness.drive(worker.run(replace(record, input_data=given)))
    assert (report.error, harness.runs) == (None, 2)
    assert (await harness.read()).status is WorkflowStatus.COMPLETED
    assert checkpoints(harness) == []


async def test_a_retry_without_decisions_by_tag_keeps_no_checkpoint(tmp_path: Path) -> None:
    """It knows its key, and no decision would ever remove what is kept under that."""

    def fail_and_keep(workspace: Path, run: int) -> None:
        if run == 1:
            raise TaskFailed("once")
        perago.current_attempt().checkpoint(workspace)

    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, body=fail_and_keep)
    await scene.start()
    assert (await scene.next_attempt()).status == "FAILED"
    retry = await scene.next_attempt()
    assert "PRG-B005" in str(retry.reason)
    assert checkpoints(scene) == []


async def test_of_several_branches_the_newest_counts(tmp_path: Path) -> None:
    """An attempt could not remove the branch of the attempt before it."""
    found: list[object] = []

    def keep_and_fail_twice(workspace: Path, run: int) -> None:
        attempt = perago.current_attempt()
        found.append(attempt.resumed_from and attempt.resumed_from.note)
        (workspace / "out.txt").write_text(f"new {run}")
        attempt.checkpoint(workspace, note=run)
        if run < 3:
            raise TaskFailed("once more")

    scene = AttemptScene(tmp_path, PolicySetting.SETTLED, body=keep_and_fail_twice)
    await scene.start()
    assert (await scene.next_attempt()).status == "FAILED"
    unremoved = await scene.next_attempt(always(unavailable("branches.delete")))
    assert unremoved.status == "FAILED"
    assert len(checkpoints(scene)) == 2
    assert (await scene.next_attempt()).accepted
    assert found == [None, 1, 2]
    assert checkpoints(scene) == []


class KeepsThree(TaskBody):
    """A function that goes back to what it had, and fails; each copy is uploaded at once."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Keep three checkpoints."""
        assert call.checkpoints is not None
        assert call.workspace is not None
        state = call.workspace / "state"
        for text in ("one", "two", "one"):
            state.write_text(text)
            put_copy(survey(state, 100), json.dumps(text), Path(call.checkpoints.terms.out))
            await call.checkpoints.upload()
        return BodyRaised("once")


@pytest.mark.parametrize("fault", [lose_request, lose_answer])
async def test_a_checkpoint_after_one_without_an_answer_is_what_was_copied(
    tmp_path: Path, fault: Callable[..., Fault]
) -> None:
    """What the other has left on the branch must not be committed with it."""
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    of_the_fence_check = 1
    worker = harness.worker([fault("commits.commit", nth=of_the_fence_check + 2)])
    worker = replace(worker, harness=replace(worker.harness, body=KeepsThree()))
    assert (await harness.report_of(worker)).error is not None
    (branch,) = checkpoints(harness)
    assert harness.repository.files(branch)[f"{CHECKPOINT_FOLDER}/state"] == b"one"
    assert not harness.planned


async def test_a_listing_that_fails_leaves_them_to_garbage_collection(tmp_path: Path) -> None:
    harness = await one_failed_and_one_died(tmp_path, crash(before="compare"))
    report = await harness.report(lose_request("branches.list_page"))
    assert (report.error, harness.runs) == (None, 2)
    assert len(checkpoints(harness)) == 1
