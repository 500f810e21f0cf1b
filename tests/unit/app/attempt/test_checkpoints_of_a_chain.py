"""The checkpoints of a chain go with its decision, whichever way an attempt came to that."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.dead_owners import let_locks_go
from tests.unit.app.attempt.fault_world import TASK, FaultWorld

import perago
from perago import TaskFailed, WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX
from perago.domain.policy import PolicySetting
from perago.testing.faults import Fault, crash, lose_request


def _checkpoint_and_fail_once(workspace: Path, run: int) -> None:
    (workspace / "out.txt").write_text(f"new {run}")
    perago.current_attempt().checkpoint(workspace)
    if run == 1:
        raise TaskFailed("once")


def checkpoints(world: FaultWorld) -> list[str]:
    names = world.repository.branch_names()
    return sorted(name for name in names if name.startswith(CHECKPOINT_BRANCH_PREFIX))


async def one_failed_and_one_died(root: Path, *faults: Fault) -> FaultWorld:
    """A first attempt that failed behind its checkpoint, and a retry that died of these faults."""
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    world = FaultWorld(root, PolicySetting.SETTLED, spec=spec, body=_checkpoint_and_fail_once)
    world.shared_root = root / "host"
    await world.start()
    assert (await world.report()).error is not None
    assert await world.attempt(world.worker(faults)) is None
    let_locks_go(world.shared_root)
    await world.lose_lease()
    assert (len(checkpoints(world)), world.runs) == (1, 2)
    return world


@pytest.mark.parametrize("died", [crash(before="compare"), crash(after="decide")], ids=str)
async def test_an_attempt_that_recovers_or_resumes_removes_them(
    tmp_path: Path, died: Fault
) -> None:
    world = await one_failed_and_one_died(tmp_path, died)
    report = await world.report()
    assert (report.error, world.runs) == (None, 2)
    assert world.repository.branch_names() == {"main"}


async def test_an_attempt_that_adopts_removes_those_of_the_other_input(tmp_path: Path) -> None:
    world = await one_failed_and_one_died(tmp_path, crash(after="merge"))
    later = world.human("elsewhere/later.txt")
    worker = world.worker()
    record = await worker.poll(TASK)
    assert record is not None
    given = {**record.input_data, "workspace": world.workspace(ref=later)}
    report = await world.drive(worker.run(replace(record, input_data=given)))
    assert (report.error, world.runs) == (None, 2)
    assert (await world.read()).status is WorkflowStatus.COMPLETED
    assert checkpoints(world) == []


async def test_a_listing_that_fails_leaves_them_to_garbage_collection(tmp_path: Path) -> None:
    world = await one_failed_and_one_died(tmp_path, crash(before="compare"))
    report = await world.report(lose_request("branches.list_page"))
    assert (report.error, world.runs) == (None, 2)
    assert len(checkpoints(world)) == 1
