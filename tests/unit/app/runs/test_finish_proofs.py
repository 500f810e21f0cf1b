"""What finish proves of a decision and of its publication, and what it writes beside it."""

from pathlib import Path

import pytest
from tests.people import reset_hard
from tests.unit.app.attempt.fault_world import reason_of
from tests.unit.app.runs.run_world import FINISH, STEPS, RunWorld, refused, waiting

from perago.domain import commit_metadata as metadata
from perago.domain.fence import FENCE_FILE_1
from perago.domain.outcome import Merged
from perago.domain.paths import FENCE_PATH, ROOT_PREFIX
from perago.domain.run import History, OnMoved
from perago.ports.errors import AccessDeniedError
from perago.testing.faults import answer, crash, meanwhile, refuse


async def test_the_commit_of_a_run_says_whose_it_is(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    head, run = world.run_head, await world.begun()
    await world.until(None)
    (record,) = world.runs_on_target()
    expected = {
        metadata.RUN: run.key,
        metadata.RUN_TASKS: str(len(STEPS)),
        metadata.WORKFLOW_ID: world.workflow,
        metadata.STAGING_COMMIT: head,
        metadata.STAGING_BRANCH: run.run_branch,
        metadata.EXPECTED_HEAD: run.base,
        metadata.INPUT_REF: run.base,
        metadata.TARGET_BRANCH: "main",
        metadata.PREFIX: ROOT_PREFIX,
        metadata.PHASE: metadata.CONFIRM,
        metadata.LOGICAL_TASK_KEY: f"{world.workflow}/finish/0",
    }
    assert expected.items() <= record.metadata.items()


async def test_a_decision_that_comes_between_the_look_and_ours_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    before = world.repository.tags().keys()
    assert await world.attempt(world.worker([crash(after="decide")])) is None
    (tag,) = world.repository.tags().keys() - before
    world.repository.delete_tag(tag)
    await world.lose_lease()
    forge = meanwhile(lambda: world.repository.tag(tag, world.input), before="decide")
    assert world.input in refused(await world.report(forge), "PRG-F006")
    await world.assert_untouched()


async def test_a_commit_that_hides_the_tasks_of_the_run_is_reported(tmp_path: Path) -> None:
    """A merge was asked for, and the commit has one parent, as a squash has."""
    world = await waiting(tmp_path)
    squashed = world.human()
    reset_hard(world.repository, world.input)
    reason = refused(await world.report(answer("merge", Merged(squashed))), "PRG-F023")
    assert squashed in reason


async def test_a_publication_of_another_tree_is_reported_with_what_differs(
    tmp_path: Path,
) -> None:
    world = await waiting(tmp_path, history=History.SQUASH)
    made = world.human("elsewhere/unknown.txt")
    reset_hard(world.repository, world.input)
    reason = refused(await world.report(answer("merge", Merged(made))), "PRG-F024")
    assert "data/kept.txt" in reason
    assert "`perago fence verify repo main`" in reason


@pytest.mark.parametrize("on_moved", OnMoved)
async def test_a_refusal_of_lakefs_is_told_as_it_is(tmp_path: Path, on_moved: OnMoved) -> None:
    world = await waiting(tmp_path, on_moved)
    refusal = refuse("branches.merge", AccessDeniedError("no right to merge"), nth=3)
    report = await world.report(refusal)
    assert "no right to merge" in reason_of(report)
    assert "AccessDeniedError" in reason_of(report)
    await world.assert_untouched()
    assert (await world.report()).error is None
    await world.assert_published()


async def test_a_look_that_is_refused_is_told_as_it_is(tmp_path: Path) -> None:
    world = await RunWorld(tmp_path).started()
    await world.until(FINISH)
    refusal = refuse("commits.first_parents", AccessDeniedError("no right to read"), nth=2)
    report = await world.report(refusal)
    assert "AccessDeniedError" in reason_of(report)
    assert (await world.report()).error is None
    await world.assert_published()


async def test_a_protected_target_takes_a_run(tmp_path: Path) -> None:
    """Publications are merges, which protection lets pass."""
    world = await waiting(tmp_path)
    world.repository.protect()
    await world.until(None)
    await world.assert_published()


async def test_the_first_version_of_the_fence_is_still_trusted(tmp_path: Path) -> None:
    world = RunWorld(tmp_path)
    world.input = world.repository.commit({FENCE_PATH: FENCE_FILE_1})
    await world.start()
    await world.until(None)
    await world.assert_published()
