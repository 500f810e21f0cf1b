"""What begin promises, sentence by sentence, on in-memory servers."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.runs.run_harness import BEGIN, FINISH, RunHarness, refused

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import MadeGoodError, StaleAttemptError
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.testing.faults import Fault, crash, lose_answer, meanwhile


async def begin(harness: RunHarness, *faults: Fault) -> str:
    """Run one attempt of begin that is refused for good; its reason."""
    report = await harness.report(*faults)
    (row,) = (await harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    return reason_of(report)


async def test_a_run_begins_at_the_head_of_its_target(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.report()
    (row, _) = (await harness.read()).attempts
    run = await harness.begun()
    assert row.output_data["result"] == {
        "workspace": {
            "repository": "repo",
            "branch": run.run_branch,
            "ref_type": "commit",
            "ref": harness.input,
        },
        "run": {
            "repository": "repo",
            "branch": "main",
            "run_branch": f"perago-run-{run.key}",
            "base": harness.input,
            "key": run.key,
        },
    }
    assert harness.repository.head(run.run_branch).commit == harness.input
    assert harness.repository.tags() == {f"perago-base-{run.key}": harness.input}


async def test_a_run_begins_at_the_ref_that_it_is_given(tmp_path: Path) -> None:
    harness = RunHarness(tmp_path)
    harness.ref = harness.input
    harness.human()
    await harness.start()
    await harness.report()
    assert (await harness.begun()).base == harness.input


@pytest.mark.parametrize("ref", ["main", "a" * 64])
async def test_a_ref_that_is_no_commit_is_refused_and_nothing_is_made(
    tmp_path: Path, ref: str
) -> None:
    harness = await RunHarness(tmp_path, ref=ref).started()
    assert (await harness.report()).error is not None
    assert harness.repository.tags() == {}
    assert harness.repository.branch_names() == {"main"}


async def test_a_ref_that_finish_would_refuse_is_refused_before_any_task(tmp_path: Path) -> None:
    harness = RunHarness(tmp_path)
    branch = harness.repository.branch("other", harness.input)
    harness.ref = harness.repository.commit({"data/other": b"x"}, branch=branch)
    await harness.start()
    reason = await begin(harness)
    assert "PRG-F005" in reason
    assert harness.ref in reason
    assert "`perago head repo main`" in reason
    assert harness.repository.tags() == {}
    assert harness.repository.branch_names() == {"main", "other"}


async def test_a_misspelt_option_is_no_default(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    assert "params.onMoved" in refused(await harness.finish_again(onMoved="rebase"), "PRG-I003")
    await harness.assert_untouched()


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
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    assert named in refused(await harness.finish_again(**given), "PRG-I003")
    await harness.assert_untouched()


async def test_a_base_without_the_fence_is_refused_with_the_command_that_installs_it(
    tmp_path: Path,
) -> None:
    harness = await RunHarness(tmp_path, fenced=False).started()
    reason = await begin(harness)
    assert "PRG-F020" in reason
    assert "`perago fence install repo main`" in reason
    assert harness.repository.tags() == {}
    assert harness.repository.branch_names() == {"main"}


async def test_the_fence_of_the_base_counts_and_not_that_of_the_head(tmp_path: Path) -> None:
    harness = RunHarness(tmp_path, fenced=False)
    harness.ref = harness.input
    harness.repository.commit({FENCE_PATH: FENCE_FILE})
    await harness.start()
    assert "PRG-F020" in await begin(harness)


async def test_the_fence_of_a_base_that_was_decided_counts_too(tmp_path: Path) -> None:
    """Whoever may create tags can put that of a run on any commit."""
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in harness.repository.tags() if name.startswith("perago-base-"))
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, harness.repository.history()[-1].commit)
    await harness.lose_lease()
    assert "PRG-F020" in reason_of(await harness.report())
    assert not any(name.startswith("perago-run-") for name in harness.repository.branch_names())


async def test_the_fence_of_a_base_that_is_decided_meanwhile_counts_too(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in harness.repository.tags() if name.startswith("perago-base-"))
    harness.repository.delete_tag(tag)
    root = harness.repository.history()[-1].commit
    await harness.lose_lease()
    forge = meanwhile(lambda: harness.repository.tag(tag, root), before="objects.read")
    assert "PRG-F020" in reason_of(await harness.report(forge))
    assert not any(name.startswith("perago-run-") for name in harness.repository.branch_names())


async def test_the_fence_counts_in_a_retry_too(tmp_path: Path) -> None:
    """The server may have been restarted without hooks since the first attempt tried them."""
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([crash(after="tags.create")])) is None
    harness.lakefs.actions_enabled = False
    await harness.lose_lease()
    assert "PRG-F022" in reason_of(await harness.report())
    assert not any(name.startswith("perago-run-") for name in harness.repository.branch_names())


async def test_a_server_that_does_not_run_the_fence_is_refused(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    harness.lakefs.actions_enabled = False
    assert "PRG-F022" in reason_of(await harness.report())
    assert harness.repository.tags() == {}


@pytest.mark.parametrize(
    "fault", [crash(after="tags.create"), crash(after="branches.create", nth=3)]
)
async def test_a_retry_keeps_the_base_although_the_target_moved(
    tmp_path: Path, fault: Fault
) -> None:
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([fault])) is None
    harness.human()
    await harness.lose_lease()
    assert (await harness.report()).error is None
    run = await harness.begun()
    assert run.base == harness.input
    bases = {name for name in harness.repository.tags() if name.startswith("perago-base-")}
    assert bases == {f"perago-base-{run.key}"}


async def test_a_lost_answer_begins_the_same_run(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    report = await harness.report(lose_answer("tags.create"), lose_answer("branches.create", nth=3))
    assert report.error is None
    runs = {name for name in harness.repository.branch_names() if name.startswith("perago-run-")}
    assert runs == {(await harness.begun()).run_branch}


async def test_a_rerun_of_begin_is_another_run(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(None)
    first = await harness.begun()
    harness.clock.advance(1)
    (begun, *_) = (await harness.read()).attempts
    await harness.operator.workflows.rerun(harness.workflow, begun.snapshot.task_id)
    await harness.until(None)
    second = await harness.begun()
    assert second.key != first.key
    assert (await harness.read()).status is WorkflowStatus.COMPLETED
    assert len(harness.runs_on_target()) == 2


async def test_a_branch_of_that_name_that_does_not_stand_on_the_base_is_refused(
    tmp_path: Path,
) -> None:
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in harness.repository.tags() if name.startswith("perago-base-"))
    root = harness.repository.history()[-1].commit
    harness.repository.branch(tag.replace("perago-base-", "perago-run-"), root)
    await harness.lose_lease()
    report = await harness.report()
    assert "PRG-N006" in reason_of(report)
    assert harness.input in reason_of(report)
    assert root in reason_of(report)


async def test_a_run_branch_is_hidden(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.report()
    branches = lakefs_installation(harness.lakefs, WorkerHandle()).branches
    plain = await branches.list_page(harness.repository.id, "perago-run-")
    assert plain.items == ()
    shown = await branches.list_page(harness.repository.id, "perago-run-", show_hidden=True)
    assert [branch.name for branch in shown.items] == [(await harness.begun()).run_branch]


async def test_a_begin_that_was_replaced_long_ago_makes_no_run_branch(tmp_path: Path) -> None:
    """Finish has removed it: it would stand there as a run that was never finished."""
    harness = await RunHarness(tmp_path).started()
    late = harness.worker()
    record = await late.poll(BEGIN)
    assert record is not None
    await harness.lose_lease()
    await harness.until(None)
    await harness.assert_published()
    report = await harness.drive(late.run(record))
    assert isinstance(report.error, StaleAttemptError)
    assert not any(name.startswith("perago-run-") for name in harness.repository.branch_names())


@pytest.mark.parametrize("seconds", [0, 2], ids=["at once", "so late that it reads its row"])
async def test_an_attempt_that_a_retry_made_good_ends_when_a_rerun_hands_it_out(
    tmp_path: Path, seconds: int
) -> None:
    """Conductor waits for its end: without one the workflow runs for ever."""
    harness = await RunHarness(tmp_path).started()
    assert await harness.attempt(harness.worker([crash(before="complete")])) is None
    await harness.lose_lease()
    await harness.until(TASK)
    waiting = (await harness.read()).attempts[-1]
    await harness.operator.workflows.terminate(harness.workflow, "by hand")
    await harness.operator.workflows.rerun(harness.workflow, waiting.snapshot.task_id)
    worker = harness.worker()
    record = await worker.poll(BEGIN)
    assert record is not None
    report = await harness.drive(worker.run(record, harness.clock.monotonic() - seconds))
    assert isinstance(report.error, MadeGoodError)
    assert report.status == AttemptStatus.FAILED
    await harness.until(None)
    assert (await harness.read()).status is WorkflowStatus.COMPLETED
