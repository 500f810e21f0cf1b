"""A run whose workflow an operator terminates, retries, reruns, restarts or resets."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.runs.run_harness import BEGIN, FINISH, STEPS, RunHarness

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.runs.held_runs import abandon_run
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.run import History, base_tag
from perago.ports.errors import RequestRefusedError
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import Fault, crash, refuse


async def rerun(harness: RunHarness, reference: str) -> None:
    """Run a task of the workflow again, and all that follow it."""
    harness.clock.advance(1)
    rows = {row.snapshot.reference_name: row.snapshot for row in (await harness.read()).attempts}
    await harness.operator.workflows.rerun(harness.workflow, rows[reference].task_id)


async def abandon(harness: RunHarness, injector: FaultInjector | None = None) -> None:
    """`perago abandon` of the run, whose workflow is terminated first."""
    if (await harness.read()).status is WorkflowStatus.RUNNING:
        await harness.operator.workflows.terminate(harness.workflow, "it is not wanted")
    lakefs = lakefs_installation(harness.lakefs, WorkerHandle())
    lakefs = faulty_installation(lakefs, injector or FaultInjector())
    key = (await harness.begun()).as_value().key
    await abandon_run(lakefs, harness.operator.workflows, harness.repository.id, key)


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
    harness = await RunHarness(tmp_path, history=history).started()
    await harness.until(task)
    assert await harness.attempt(harness.worker([died])) is None
    await harness.operator.workflows.terminate(harness.workflow, "too slow")
    await harness.operator.workflows.retry(harness.workflow)
    await harness.until(None)
    await harness.assert_published()


@pytest.mark.parametrize("finished", [False, True], ids=["refused", "published"])
async def test_a_restart_begins_another_run(
    tmp_path: Path,
    finished: bool,  # noqa: FBT001 - a row of the table
) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    first = await harness.begun()
    if not finished:
        harness.human()
    await harness.report()
    assert len(harness.runs_on_target()) == finished
    harness.clock.advance(1)
    await harness.operator.workflows.restart(harness.workflow)
    await harness.until(None)
    assert (await harness.read()).status is WorkflowStatus.COMPLETED
    assert (await harness.begun()).key != first.key
    assert len(harness.runs_on_target()) == finished + 1


@pytest.mark.parametrize("same_process", [False, True], ids=["another process", "the same"])
@pytest.mark.parametrize("ended", ["published", "given up"])
async def test_a_task_of_a_run_that_has_ended_fails_for_good_and_says_so(
    tmp_path: Path,
    ended: str,
    same_process: bool,  # noqa: FBT001 - a row of the table
) -> None:
    harness = await RunHarness(tmp_path).started()
    worker = harness.worker()
    while await harness.waits() not in {None, FINISH}:
        await harness.report_of(worker)
    if ended == "published":
        await harness.until(None)
    else:
        await abandon(harness)
    head, branches = harness.repository.head(), harness.repository.branch_names()
    await rerun(harness, STEPS[-1])
    report = await harness.report_of(worker if same_process else harness.worker())
    (*_, row) = (await harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-N009" in reason_of(report)
    assert "`perago runs repo`" in reason_of(report)
    assert (harness.repository.head(), harness.repository.branch_names()) == (head, branches)


async def test_a_task_that_is_run_again_in_a_run_is_not_sent_to_the_head_of_the_run(
    tmp_path: Path,
) -> None:
    """A workflow that started from the run branch would publish where no reader looks."""
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    harness.human()
    await harness.report()
    await rerun(harness, STEPS[-1])
    reason = reason_of(await harness.report())
    assert "PRG-F002" in reason
    assert "`perago runs repo`" in reason
    assert "perago head" not in reason


async def test_the_tag_of_a_run_that_is_given_up_goes_last(tmp_path: Path) -> None:
    """A branch without it could not be compared with its base."""
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    run = await harness.begun()
    busy = FaultInjector([refuse("branches.delete", RequestRefusedError("busy"))])
    with pytest.raises(RequestRefusedError):
        await abandon(harness, busy)
    assert harness.repository.tags()[base_tag(run.as_value().key)] == run.base
    await abandon(harness)
    assert base_tag(run.as_value().key) not in harness.repository.tags()


async def test_a_finish_that_was_reset_finds_the_publication(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(None)
    (published,) = harness.runs_on_target()
    await harness.reset_task("finish")
    await rerun(harness, "finish")
    assert (await harness.report()).error is None
    assert harness.runs_on_target() == [published]
    await harness.assert_published()


async def test_a_begin_that_was_reset_begins_another_run(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    first = await harness.begun()
    await harness.operator.workflows.terminate(harness.workflow, "its base is too old")
    await harness.reset_task("begin")
    harness.human()
    await rerun(harness, "begin")
    await harness.until(None)
    assert (await harness.begun()).key != first.key
    (published,) = harness.runs_on_target()
    assert published.parents[0] != first.base
