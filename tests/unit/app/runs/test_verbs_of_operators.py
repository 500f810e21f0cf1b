"""A run whose workflow an operator terminates, retries, reruns, restarts or resets."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import reason_of
from tests.unit.app.runs.run_world import BEGIN, FINISH, STEPS, RunWorld

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.runs.held_runs import abandon_run
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.run import History, base_tag
from perago.ports.errors import RequestRefusedError
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import Fault, crash, refuse


async def rerun(world: RunWorld, reference: str) -> None:
    """Run a task of the workflow again, and all that follow it."""
    world.clock.advance(1)
    rows = {row.snapshot.reference_name: row.snapshot for row in (await world.read()).attempts}
    await world.operator.workflows.rerun(world.workflow, rows[reference].task_id)


async def abandon(world: RunWorld, injector: FaultInjector | None = None) -> None:
    """`perago abandon` of the run, whose workflow is terminated first."""
    if (await world.read()).status is WorkflowStatus.RUNNING:
        await world.operator.workflows.terminate(world.workflow, "it is not wanted")
    lakefs = lakefs_installation(world.lakefs, WorkerHandle())
    lakefs = faulty_installation(lakefs, injector or FaultInjector())
    key = (await world.begun()).as_value().key
    await abandon_run(lakefs, world.operator.workflows, world.repository.id, key)


@pytest.mark.parametrize("history", History)
@pytest.mark.parametrize(
    ("task", "died"),
    [
        (BEGIN, crash(before="tags.create")),
        (BEGIN, crash(after="tags.create")),
        (BEGIN, crash(after="branches.create", nth=3)),
        (FINISH, crash(before="decide")),
        (FINISH, crash(after="decide")),
        (FINISH, crash(after="merge")),
        (FINISH, crash(before="complete")),
    ],
)
async def test_a_workflow_that_was_terminated_is_retried_and_publishes_its_run_once(
    tmp_path: Path, task: str, died: Fault, history: History
) -> None:
    world = await RunWorld(tmp_path, history=history).started()
    await world.until(task)
    assert await world.attempt(world.worker([died])) is None
    await world.operator.workflows.terminate(world.workflow, "too slow")
    await world.operator.workflows.retry(world.workflow)
    await world.until(None)
    await world.assert_published()


@pytest.mark.parametrize("finished", [False, True], ids=["refused", "published"])
async def test_a_restart_begins_another_run(
    tmp_path: Path,
    finished: bool,  # noqa: FBT001 - a row of the table
) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    first = await world.begun()
    if not finished:
        world.human()
    await world.report()
    assert len(world.runs_on_target()) == finished
    world.clock.advance(1)
    await world.operator.workflows.restart(world.workflow)
    await world.until(None)
    assert (await world.read()).status is WorkflowStatus.COMPLETED
    assert (await world.begun()).key != first.key
    assert len(world.runs_on_target()) == finished + 1


@pytest.mark.parametrize("same_process", [False, True], ids=["another process", "the same"])
@pytest.mark.parametrize("ended", ["published", "given up"])
async def test_a_task_of_a_run_that_has_ended_fails_for_good_and_says_so(
    tmp_path: Path,
    ended: str,
    same_process: bool,  # noqa: FBT001 - a row of the table
) -> None:
    world = await RunWorld(tmp_path).started()
    worker = world.worker()
    while await world.waits() not in {None, FINISH}:
        await world.report_of(worker)
    if ended == "published":
        await world.until(None)
    else:
        await abandon(world)
    head, branches = world.repository.head(), world.repository.branch_names()
    await rerun(world, STEPS[-1])
    report = await world.report_of(worker if same_process else world.worker())
    (*_, row) = (await world.read()).attempts
    assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-N009" in reason_of(report)
    assert "`perago runs repo`" in reason_of(report)
    assert (world.repository.head(), world.repository.branch_names()) == (head, branches)


async def test_a_task_that_is_run_again_in_a_run_is_not_sent_to_the_head_of_the_run(
    tmp_path: Path,
) -> None:
    """A workflow that started from the run branch would publish where no reader looks."""
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    world.human()
    await world.report()
    await rerun(world, STEPS[-1])
    reason = reason_of(await world.report())
    assert "PRG-F002" in reason
    assert "`perago runs repo`" in reason
    assert "perago head" not in reason


async def test_the_tag_of_a_run_that_is_given_up_goes_last(tmp_path: Path) -> None:
    """A branch without it could not be compared with its base."""
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    run = await world.begun()
    busy = FaultInjector([refuse("branches.delete", RequestRefusedError("busy"))])
    with pytest.raises(RequestRefusedError):
        await abandon(world, busy)
    assert world.repository.tags()[base_tag(run.as_value().key)] == run.base
    await abandon(world)
    assert base_tag(run.as_value().key) not in world.repository.tags()


async def test_a_finish_that_was_reset_finds_the_publication(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(None)
    (published,) = world.runs_on_target()
    await world.reset_task("finish")
    await rerun(world, "finish")
    assert (await world.report()).error is None
    assert world.runs_on_target() == [published]
    await world.assert_published()


async def test_a_begin_that_was_reset_begins_another_run(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    first = await world.begun()
    await world.operator.workflows.terminate(world.workflow, "its base is too old")
    await world.reset_task("begin")
    world.human()
    await rerun(world, "begin")
    await world.until(None)
    assert (await world.begun()).key != first.key
    (published,) = world.runs_on_target()
    assert published.parents[0] != first.base
