"""What finish promises, sentence by sentence, on in-memory servers."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.people import discard_uncommitted, reset_hard
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.runs.run_harness import FINISH, TARGET, RunHarness, refused, waiting

from perago.app.attempt.complete import Recorded
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.runs.finish import BUILT_IN, FINISH_TASK, served_tasks
from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import (
    EXPECTED_HEAD,
    LOGICAL_EXECUTION_KEY,
    RUN,
    STAGING_BRANCH,
    STAGING_COMMIT,
)
from perago.domain.fence import FENCE_FILE, FenceState
from perago.domain.logical_execution import LogicalExecutionKey, decision_tag
from perago.domain.outcome import MergeConflict, Merged, NoChanges, TooManyTries
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.domain.run import History, OnMoved, base_tag
from perago.testing.faults import always, answer, crash, lose_answer, lose_request, meanwhile

SCRATCH_MERGE = "branches.merge"


@pytest.mark.parametrize("history", History)
@pytest.mark.parametrize("on_moved", OnMoved)
async def test_the_target_shows_a_run_as_one_commit(
    tmp_path: Path, history: History, on_moved: OnMoved
) -> None:
    harness = await waiting(tmp_path, on_moved, history)
    await harness.assert_untouched()
    await harness.until(None)
    await harness.assert_published()
    (record,) = harness.runs_on_target()
    assert record.parents[0] == harness.input
    assert [each.commit for each in harness.above_input()] == [record.commit]


async def test_the_commits_of_the_tasks_stay_behind_the_second_parent(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    tasks = [record.commit for record in harness.repository.history(run_branch)[:2]]
    await harness.until(None)
    (record,) = harness.runs_on_target()
    assert record.parents == (harness.input, tasks[0])


async def test_the_commit_names_the_decision_and_the_branch_that_it_published(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    run = (await harness.begun()).as_value()
    head = harness.repository.head(run.run_branch).commit
    await harness.until(None)
    (record,) = harness.runs_on_target()
    key = LogicalExecutionKey(record.metadata[LOGICAL_EXECUTION_KEY])
    assert harness.repository.tags()[decision_tag(key)] == head
    assert record.metadata[STAGING_BRANCH] == run.run_branch
    assert record.metadata[STAGING_COMMIT] == head


async def test_the_tag_of_the_base_stays_when_the_branch_goes(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    await harness.until(None)
    await harness.assert_published(branch_gone=True)
    key = (await harness.begun()).as_value().key
    assert harness.repository.tags()[base_tag(key)] == harness.input


@pytest.mark.parametrize("moved", [False, True], ids=["at the base", "moved"])
async def test_a_run_without_a_publication_writes_nothing(
    tmp_path: Path,
    moved: bool,  # noqa: FBT001 - a row of the table
) -> None:
    harness = RunHarness(tmp_path, body=lambda _workspace, _run: None)
    await harness.start()
    await harness.until(FINISH)
    if moved:
        harness.human()
    head = harness.repository.head().commit
    assert (await harness.report()).error is None
    (*_, row) = (await harness.read()).attempts
    assert row.output_data["result"] == {"workspace": {**TARGET, "ref": harness.input}}
    assert harness.repository.head().commit == head
    assert harness.repository.branch_names() >= {"main"}
    assert not any(name.startswith("perago-run-") for name in harness.repository.branch_names())


async def test_a_run_that_took_back_what_it_did_is_one_commit_with_the_same_tree(
    tmp_path: Path,
) -> None:
    def body(workspace: Path, run: int) -> None:
        extra = workspace / "extra"
        extra.write_text("made") if run == 1 else extra.unlink()

    harness = RunHarness(tmp_path, body=body)
    await harness.start()
    await harness.until(None)
    (record,) = harness.runs_on_target()
    assert harness.repository.files(record.commit) == harness.repository.files(harness.input)


async def test_the_decision_is_kept_whatever_is_written_to_the_run_branch_later(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    assert await harness.attempt(harness.worker([crash(before="merge")])) is None
    assert any(name.startswith("perago-settled-") for name in harness.repository.tags())
    harness.repository.commit({"data/foreign": b"x"}, branch=run_branch)
    await harness.lose_lease()
    assert (await harness.report()).error is None
    await harness.assert_published()
    assert "data/foreign" not in harness.repository.files()


async def test_the_decision_is_kept_in_the_next_round_of_the_same_attempt(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    branch = (await harness.begun()).run_branch
    foreign = partial(harness.repository.commit, {"data/foreign": b"x"}, branch=branch)
    report = await harness.report(meanwhile(foreign, after="decide"), lose_request("merge"))
    assert report.error is None
    await harness.assert_published()
    assert "data/foreign" not in harness.repository.files()


async def test_a_target_that_moved_is_refused_with_what_moved_and_what_to_do(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    head = harness.human()
    reason = refused(await harness.report(), "PRG-N004")
    assert harness.input in reason
    assert head in reason
    assert "perago head repo main" in reason
    await harness.assert_untouched()
    assert harness.repository.head().commit == head
    assert (await harness.read()).status is WorkflowStatus.FAILED


async def test_a_target_without_the_base_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    reset_hard(harness.repository, harness.repository.history()[-1].commit)
    refused(await harness.report(), "PRG-F005")


@pytest.mark.parametrize("history", History)
async def test_a_run_is_rebased_when_no_path_was_changed_on_both_sides(
    tmp_path: Path, history: History
) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE, history)
    files = {"data/theirs": b"t", "data/old.txt": None, "elsewhere/other.txt": b"changed"}
    head = harness.repository.commit(files)
    run_branch = (await harness.begun()).run_branch
    run_head = harness.repository.head(run_branch).commit
    await harness.until(None)
    await harness.assert_published()
    (record,) = harness.runs_on_target()
    assert record.parents[0] == head
    shown = harness.repository.files()
    assert shown["data/theirs"] == b"t"
    assert shown["elsewhere/other.txt"] == b"changed"
    assert "data/old.txt" not in shown
    if history is History.MERGE:
        (_, made) = record.parents
        (behind,) = (each for each in harness.commits_behind(made) if each.commit == made)
        assert behind.parents == (head, run_head)
        assert behind.metadata[EXPECTED_HEAD] == head
        assert RUN not in behind.metadata
    assert not any(name.startswith("perago-staging-") for name in harness.repository.branch_names())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("data/kept.txt", b"theirs", id="changed twice"),
        pytest.param("data/kept.txt", b"kept in step 2", id="changed twice to the same"),
        pytest.param("data/kept.txt", None, id="changed and removed"),
        pytest.param("data/step-2", b"made", id="added twice"),
        pytest.param(FENCE_PATH, FENCE_FILE + b"# more", id="reserved"),
        pytest.param("data/step-1/theirs", b"x", id="a folder in the place of a file"),
    ],
)
async def test_a_run_is_refused_when_a_path_was_changed_on_both_sides(
    tmp_path: Path, path: str, content: bytes | None
) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    head = harness.repository.commit({path: content})
    assert path in refused(await harness.report(), "PRG-N005")
    assert harness.repository.head().commit == head
    assert harness.runs_on_target() == []


async def test_a_rebase_begins_anew_when_the_target_moves_again(tmp_path: Path) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    harness.human()
    again = partial(harness.human, "elsewhere/second.txt")
    await harness.report(meanwhile(again, after=SCRATCH_MERGE, nth=3))
    await harness.assert_published()
    assert {"elsewhere/human.txt", "elsewhere/second.txt"} <= harness.repository.files().keys()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("data/step-1", None, id="of the run is lost"),
        pytest.param("data/step-1", b"other", id="of the run is another"),
        pytest.param("elsewhere/human.txt", None, id="of others is lost"),
        pytest.param("elsewhere/human.txt", b"other", id="of others is another"),
        pytest.param("data/old.txt", None, id="of both is lost"),
        pytest.param("data/old.txt", b"other", id="of both is another"),
        pytest.param("data/more", b"more", id="of nobody appears"),
    ],
)
async def test_a_merge_that_is_not_exactly_the_run_is_never_published(
    tmp_path: Path, path: str, content: bytes | None
) -> None:
    """LakeFS 1.86 loses objects in a three-way merge without a conflict (ADR 4)."""
    harness = await waiting(tmp_path, OnMoved.REBASE)
    head = harness.human()
    run_branch = (await harness.begun()).run_branch
    shown = harness.repository.files(run_branch)
    mine = {name: shown[name] for name in ("data/kept.txt", "data/step-1", "data/step-2")}
    harness.repository.branch("wrong", head)
    wrong = harness.repository.commit({**mine, path: content}, branch="wrong")
    report = await harness.report(answer(SCRATCH_MERGE, Merged(wrong), nth=3))
    assert path in refused(report, "PRG-N007")
    assert harness.repository.head().commit == head


async def test_a_conflict_on_the_scratch_branch_is_a_refusal(tmp_path: Path) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    head = harness.human()
    report = await harness.report(answer(SCRATCH_MERGE, MergeConflict("conflict"), nth=3))
    refused(report, "PRG-N007")
    assert harness.repository.head().commit == head


async def test_a_wait_for_conductor_is_followed_by_another_look(tmp_path: Path) -> None:
    """What was seen of the target before the wait may be minutes old."""
    harness = await waiting(tmp_path)
    quick = harness.worker()
    assert (await harness.report_of(quick)).error is None
    looks = harness.requests(-1)["commits.first_parents"]
    harness = await waiting(tmp_path / "again")
    assert (await harness.report(lose_request("queue.read_workflow"))).error is None
    assert harness.requests(-1)["commits.first_parents"] == looks + 1
    assert harness.requests(-1)["branches.merge"] == 1 + 2, "one beside those of the canary"


async def test_a_merge_without_changes_is_looked_at_once_and_then_refused(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    report = await harness.report(answer("merge", NoChanges("no changes")))
    refused(report, "PRG-F012")
    await harness.assert_untouched()


async def test_a_merge_that_was_lost_may_find_no_changes_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    """The first one may have arrived between the look and the second one."""
    harness = await waiting(tmp_path)
    report = await harness.report(
        lose_request("merge"), answer("merge", NoChanges("no changes"), nth=2)
    )
    assert report.error is None
    await harness.assert_published()


async def test_an_end_that_was_not_recorded_keeps_the_run_branch(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    report = await harness.report(always(lose_request("complete")))
    assert report.recorded is Recorded.UNKNOWN
    assert run_branch in harness.repository.branch_names()
    await harness.lose_lease()
    assert (await harness.report()).error is None
    await harness.assert_published(branch_gone=True)


async def test_a_finish_that_is_run_again_finds_the_publication(tmp_path: Path) -> None:
    """A rerun is another execution, and must not publish the run a second time."""
    harness = await waiting(tmp_path)
    await harness.until(None)
    (published,) = harness.runs_on_target()
    workflow = harness.workflow
    (*_, row) = (await harness.read()).attempts
    harness.clock.advance(1)
    await harness.operator.workflows.rerun(workflow, row.snapshot.task_id)
    assert (await harness.report()).error is None
    await harness.assert_published()
    assert harness.runs_on_target() == [published]


async def test_the_second_of_two_runs_on_one_target_is_refused(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    first = harness.workflow
    await harness.start()
    second = harness.workflow
    await harness.until(FINISH)
    harness.workflow = first
    await harness.until(None)
    await harness.assert_published(branch_gone=False)
    harness.workflow = second
    refused(await harness.report(), "PRG-N004")
    assert len(harness.runs_on_target()) == 1


async def test_a_publication_on_another_parent_is_reported_and_the_fence_not_trusted_again(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    worker = harness.worker([answer("merge", Merged(harness.input))])
    report = await harness.report_of(worker)
    assert "`perago fence verify repo main`" in refused(report, "PRG-F023")
    trust = worker.harness.lakefs.trust
    assert await trust.proven(harness.repository.id, harness.input) is FenceState.DISTRUSTED


async def test_a_dirty_target_is_named(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    harness.repository.write("data/uncommitted", b"x")
    report = await harness.report()
    assert "PRG-F013" in reason_of(report)
    assert "data/uncommitted" in reason_of(report)
    discard_uncommitted(harness.repository)
    assert (await harness.report()).error is None
    await harness.assert_published()


@pytest.mark.parametrize(
    ("history", "code"), [(History.MERGE, "PRG-F002"), (History.SQUASH, "PRG-F003")]
)
async def test_head_parent_never_replaces_the_publication_of_a_run(
    tmp_path: Path, history: History, code: str
) -> None:
    """Its input is the base, and the run is the one commit on top of it."""
    harness = await waiting(tmp_path / "run", history=history)
    await harness.until(None)
    (published,) = harness.runs_on_target()
    plain = AttemptHarness(tmp_path / "plain", PolicySetting.HEAD_PARENT)
    plain.servers, plain.repository, plain.input = (
        harness.servers,
        harness.repository,
        harness.input,
    )
    await plain.start()
    assert code in reason_of(await plain.report())
    assert harness.repository.head() == published


async def test_the_scratch_branch_is_found_by_the_next_round_where_the_answer_was_lost(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    harness.human()
    report = await harness.report(lose_answer(SCRATCH_MERGE, nth=3))
    assert report.error is None
    await harness.assert_published()
    assert EXPECTED_HEAD in harness.runs_on_target()[0].metadata


@pytest.mark.parametrize("on_moved", OnMoved)
async def test_a_merge_that_is_never_answered_leaves_everything_to_the_next_attempt(
    tmp_path: Path, on_moved: OnMoved
) -> None:
    """It may still arrive, and its source is the scratch branch where the run was rebased."""
    harness = await waiting(tmp_path, on_moved)
    if on_moved is OnMoved.REBASE:
        harness.human()
    before = harness.repository.branch_names()
    report = await harness.report(always(lose_request("merge")))
    assert "handed back" in reason_of(report)
    assert "publication outcome unknown" in reason_of(report)
    assert harness.repository.head().commit in reason_of(report)
    left = harness.repository.branch_names() - before
    assert len(left) == (on_moved is OnMoved.REBASE)
    await harness.lose_lease()
    assert (await harness.report()).error is None
    await harness.assert_published()


async def test_a_scratch_merge_that_was_tried_too_often_is_tried_again(tmp_path: Path) -> None:
    harness = await waiting(tmp_path, OnMoved.REBASE)
    harness.human()
    report = await harness.report(answer(SCRATCH_MERGE, TooManyTries("busy"), nth=3))
    assert report.error is None
    await harness.assert_published()


async def test_a_merge_that_takes_all_its_time_is_looked_for(tmp_path: Path) -> None:
    """The budget ended with the merge itself; settling has its own time."""
    harness = await waiting(tmp_path)
    slow = meanwhile(lambda: harness.clock.advance(60), after="merge")
    assert (await harness.report(slow, lose_answer("merge"))).error is None
    await harness.assert_published()


def test_a_worker_with_lakefs_serves_the_built_in_tasks_that_its_author_did_not_name() -> None:
    free = replace(FINISH_TASK, name="team.count", built_in=False)
    with_lakefs = replace(free, workspace=WorkspaceSpec())
    own = replace(with_lakefs, name=FINISH_TASK.name)
    assert served_tasks([free]) == [free]
    assert served_tasks([free, with_lakefs]) == [free, with_lakefs, *BUILT_IN]
    others = [task for task in BUILT_IN if task is not FINISH_TASK]
    assert served_tasks([own]) == [own, *others]
