"""What finish proves of a decision and of its publication, and what it writes beside it."""

from pathlib import Path

import pytest
from tests.people import reset_hard
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.runs.run_harness import FINISH, STEPS, RunHarness, refused, waiting

from perago.domain import commit_metadata as metadata
from perago.domain.fence import FENCE_FILE_1
from perago.domain.outcome import Merged
from perago.domain.paths import FENCE_PATH, ROOT_PREFIX
from perago.domain.run import History, OnMoved
from perago.ports.errors import AccessDeniedError
from perago.testing.faults import answer, crash, meanwhile, refuse


async def test_the_commit_of_a_run_says_whose_it_is(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    head, run = harness.run_head, await harness.begun()
    await harness.until(None)
    (record,) = harness.runs_on_target()
    expected = {
        metadata.RUN: run.key,
        metadata.RUN_TASKS: str(len(STEPS)),
        metadata.WORKFLOW_ID: harness.workflow,
        metadata.STAGING_COMMIT: head,
        metadata.STAGING_BRANCH: run.run_branch,
        metadata.EXPECTED_HEAD: run.base,
        metadata.INPUT_REF: run.base,
        metadata.TARGET_BRANCH: "main",
        metadata.PREFIX: ROOT_PREFIX,
        metadata.PHASE: metadata.CONFIRM,
        metadata.LOGICAL_TASK_KEY: f"{harness.workflow}/finish/0",
    }
    assert expected.items() <= record.metadata.items()


async def test_a_decision_that_comes_between_the_look_and_ours_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    before = harness.repository.tags().keys()
    assert await harness.attempt(harness.worker([crash(after="decide")])) is None
    (tag,) = harness.repository.tags().keys() - before
    harness.repository.delete_tag(tag)
    await harness.lose_lease()
    forge = meanwhile(lambda: harness.repository.tag(tag, harness.input), before="decide")
    assert harness.input in refused(await harness.report(forge), "PRG-F006")
    await harness.assert_untouched()


async def test_a_commit_that_hides_the_tasks_of_the_run_is_reported(tmp_path: Path) -> None:
    """A merge was asked for, and the commit has one parent, as a squash has."""
    harness = await waiting(tmp_path)
    squashed = harness.human()
    reset_hard(harness.repository, harness.input)
    reason = refused(await harness.report(answer("merge", Merged(squashed))), "PRG-F023")
    assert squashed in reason


async def test_a_publication_of_another_tree_is_reported_with_what_differs(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path, history=History.SQUASH)
    made = harness.human("elsewhere/unknown.txt")
    reset_hard(harness.repository, harness.input)
    reason = refused(await harness.report(answer("merge", Merged(made))), "PRG-F024")
    assert "data/kept.txt" in reason
    assert "`perago fence verify repo main`" in reason


@pytest.mark.parametrize("on_moved", OnMoved)
async def test_a_refusal_of_lakefs_is_reported_as_it_is(tmp_path: Path, on_moved: OnMoved) -> None:
    harness = await waiting(tmp_path, on_moved)
    refusal = refuse("branches.merge", AccessDeniedError("no right to merge"), nth=3)
    report = await harness.report(refusal)
    assert "no right to merge" in reason_of(report)
    assert "AccessDeniedError" in reason_of(report)
    await harness.assert_untouched()
    assert (await harness.report()).error is None
    await harness.assert_published()


async def test_a_look_that_is_refused_is_reported_as_it_is(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(FINISH)
    refusal = refuse("commits.first_parents", AccessDeniedError("no right to read"), nth=2)
    report = await harness.report(refusal)
    assert "AccessDeniedError" in reason_of(report)
    assert (await harness.report()).error is None
    await harness.assert_published()


async def test_a_protected_target_takes_a_run(tmp_path: Path) -> None:
    """Publications are merges, which protection lets pass."""
    harness = await waiting(tmp_path)
    harness.repository.protect()
    await harness.until(None)
    await harness.assert_published()


async def test_the_first_version_of_the_fence_is_still_trusted(tmp_path: Path) -> None:
    harness = RunHarness(tmp_path)
    harness.input = harness.repository.commit({FENCE_PATH: FENCE_FILE_1})
    await harness.start()
    await harness.until(None)
    await harness.assert_published()
