"""What begin promises, sentence by sentence, on in-memory servers."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import TASK, reason_of
from tests.unit.app.runs.run_world import BEGIN, FINISH, RunWorld, refused

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import MadeGoodError, StaleAttemptError
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.testing.faults import Fault, crash, lose_answer, meanwhile


async def begin(world: RunWorld, *faults: Fault) -> str:
    """Run one attempt of begin that is refused for good; its reason."""
    report = await world.report(*faults)
    (row,) = (await world.read()).attempts
    assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    return reason_of(report)


async def test_a_run_begins_at_the_head_of_its_target(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.report()
    (row, _) = (await world.read()).attempts
    run = await world.begun()
    assert row.output_data["result"] == {
        "workspace": {
            "repository": "repo",
            "branch": run.run_branch,
            "ref_type": "commit",
            "ref": world.input,
        },
        "run": {
            "repository": "repo",
            "branch": "main",
            "run_branch": f"perago-run-{run.key}",
            "base": world.input,
            "key": run.key,
        },
    }
    assert world.repository.head(run.run_branch).commit == world.input
    assert world.repository.tags() == {f"perago-base-{run.key}": world.input}


async def test_a_run_begins_at_the_ref_that_it_is_given(tmp_path: Path) -> None:
    world = RunWorld(tmp_path)
    world.ref = world.input
    world.human()
    await world.start()
    await world.report()
    assert (await world.begun()).base == world.input


@pytest.mark.parametrize("ref", ["main", "a" * 64])
async def test_a_ref_that_is_no_commit_is_refused_and_nothing_is_made(
    tmp_path: Path, ref: str
) -> None:
    world = await RunWorld(tmp_path, ref=ref).started()
    assert (await world.report()).error is not None
    assert world.repository.tags() == {}
    assert world.repository.branch_names() == {"main"}


async def test_a_ref_that_finish_would_refuse_is_refused_before_any_task(tmp_path: Path) -> None:
    world = RunWorld(tmp_path)
    branch = world.repository.branch("other", world.input)
    world.ref = world.repository.commit({"data/other": b"x"}, branch=branch)
    await world.start()
    reason = await begin(world)
    assert "PRG-F005" in reason
    assert world.ref in reason
    assert "`perago head repo main`" in reason
    assert world.repository.tags() == {}
    assert world.repository.branch_names() == {"main", "other"}


async def test_a_misspelt_option_is_no_default(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    assert "params.onMoved" in refused(await world.finish_again(onMoved="rebase"), "PRG-I003")
    await world.assert_untouched()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"run": None}, "params.run"),
        ({"workspace": None}, "params.workspace"),
        ({"on_moved": "maybe"}, "params.on_moved: Input should be 'refuse' or 'rebase'"),
        ({"history": "both"}, "params.history: Input should be 'merge' or 'squash'"),
    ],
)
async def test_params_that_no_retry_corrects_end_the_attempt_for_good(
    tmp_path: Path, given: dict[str, object], named: str
) -> None:
    """A workspace is null when the task before had no output."""
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    assert named in refused(await world.finish_again(**given), "PRG-I003")
    await world.assert_untouched()


async def test_a_base_without_the_fence_is_refused_with_the_command_that_installs_it(
    tmp_path: Path,
) -> None:
    world = await RunWorld(tmp_path, fenced=False).started()
    reason = await begin(world)
    assert "PRG-F020" in reason
    assert "`perago fence install repo main`" in reason
    assert world.repository.tags() == {}
    assert world.repository.branch_names() == {"main"}


async def test_the_fence_of_the_base_counts_and_not_that_of_the_head(tmp_path: Path) -> None:
    world = RunWorld(tmp_path, fenced=False)
    world.ref = world.input
    world.repository.commit({FENCE_PATH: FENCE_FILE})
    await world.start()
    assert "PRG-F020" in await begin(world)


async def test_the_fence_of_a_base_that_was_decided_counts_too(tmp_path: Path) -> None:
    """Whoever may create tags can put that of a run on any commit."""
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in world.repository.tags() if name.startswith("perago-base-"))
    world.repository.delete_tag(tag)
    world.repository.tag(tag, world.repository.history()[-1].commit)
    await world.lose_lease()
    assert "PRG-F020" in reason_of(await world.report())
    assert not any(name.startswith("perago-run-") for name in world.repository.branch_names())


async def test_the_fence_of_a_base_that_is_decided_meanwhile_counts_too(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in world.repository.tags() if name.startswith("perago-base-"))
    world.repository.delete_tag(tag)
    root = world.repository.history()[-1].commit
    await world.lose_lease()
    forge = meanwhile(lambda: world.repository.tag(tag, root), before="objects.read")
    assert "PRG-F020" in reason_of(await world.report(forge))
    assert not any(name.startswith("perago-run-") for name in world.repository.branch_names())


async def test_the_fence_counts_in_a_retry_too(tmp_path: Path) -> None:
    """The server may have been restarted without hooks since the first attempt tried them."""
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([crash(after="tags.create")])) is None
    world.lakefs.actions_enabled = False
    await world.lose_lease()
    assert "PRG-F022" in reason_of(await world.report())
    assert not any(name.startswith("perago-run-") for name in world.repository.branch_names())


async def test_a_server_that_does_not_run_the_fence_is_refused(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    world.lakefs.actions_enabled = False
    assert "PRG-F022" in reason_of(await world.report())
    assert world.repository.tags() == {}


@pytest.mark.parametrize(
    "fault", [crash(after="tags.create"), crash(after="branches.create", nth=3)]
)
async def test_a_retry_keeps_the_base_although_the_target_moved(
    tmp_path: Path, fault: Fault
) -> None:
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([fault])) is None
    world.human()
    await world.lose_lease()
    assert (await world.report()).error is None
    run = await world.begun()
    assert run.base == world.input
    bases = {name for name in world.repository.tags() if name.startswith("perago-base-")}
    assert bases == {f"perago-base-{run.key}"}


async def test_a_lost_answer_begins_the_same_run(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    report = await world.report(lose_answer("tags.create"), lose_answer("branches.create", nth=3))
    assert report.error is None
    runs = {name for name in world.repository.branch_names() if name.startswith("perago-run-")}
    assert runs == {(await world.begun()).run_branch}


async def test_a_rerun_of_begin_is_another_run(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(None)
    first = await world.begun()
    world.clock.advance(1)
    (begun, *_) = (await world.read()).attempts
    await world.operator.workflows.rerun(world.workflow, begun.snapshot.task_id)
    await world.until(None)
    second = await world.begun()
    assert second.key != first.key
    assert (await world.read()).status is WorkflowStatus.COMPLETED
    assert len(world.runs_on_target()) == 2


async def test_a_branch_of_that_name_that_does_not_stand_on_the_base_is_refused(
    tmp_path: Path,
) -> None:
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in world.repository.tags() if name.startswith("perago-base-"))
    root = world.repository.history()[-1].commit
    world.repository.branch(tag.replace("perago-base-", "perago-run-"), root)
    await world.lose_lease()
    report = await world.report()
    assert "PRG-N006" in reason_of(report)
    assert world.input in reason_of(report)
    assert root in reason_of(report)


async def test_a_run_branch_is_hidden(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.report()
    branches = lakefs_installation(world.lakefs, WorkerHandle()).branches
    plain = await branches.list_page(world.repository.id, "perago-run-")
    assert plain.names == ()
    shown = await branches.list_page(world.repository.id, "perago-run-", show_hidden=True)
    assert shown.names == ((await world.begun()).run_branch,)


async def test_a_begin_that_was_replaced_long_ago_makes_no_run_branch(tmp_path: Path) -> None:
    """Finish has removed it: it would stand there as a run that was never finished."""
    world = await RunWorld(tmp_path).started()
    late = world.worker()
    record = await late.poll(BEGIN)
    assert record is not None
    await world.lose_lease()
    await world.until(None)
    await world.assert_published()
    report = await world.drive(late.run(record))
    assert isinstance(report.error, StaleAttemptError)
    assert not any(name.startswith("perago-run-") for name in world.repository.branch_names())


@pytest.mark.parametrize("seconds", [0, 2], ids=["at once", "so late that it reads its row"])
async def test_an_attempt_that_a_retry_made_good_ends_when_a_rerun_hands_it_out(
    tmp_path: Path, seconds: int
) -> None:
    """Conductor waits for its end: without one the workflow runs for ever."""
    world = await RunWorld(tmp_path).started()
    assert await world.attempt(world.worker([crash(before="complete")])) is None
    await world.lose_lease()
    await world.until(TASK)
    waiting = (await world.read()).attempts[-1]
    await world.operator.workflows.terminate(world.workflow, "by hand")
    await world.operator.workflows.rerun(world.workflow, waiting.snapshot.task_id)
    worker = world.worker()
    record = await worker.poll(BEGIN)
    assert record is not None
    report = await world.drive(worker.run(record, world.clock.monotonic() - seconds))
    assert isinstance(report.error, MadeGoodError)
    assert report.status == AttemptStatus.FAILED
    await world.until(None)
    assert (await world.read()).status is WorkflowStatus.COMPLETED
