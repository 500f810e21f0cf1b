"""Runs that finish refuses for what it was given, or for what became of them."""

from pathlib import Path

import pytest
from tests.people import reset_hard
from tests.unit.app.runs.run_harness import TARGET, refused, waiting

from perago.domain.paths import FENCE_PATH
from perago.testing.faults import crash


async def test_a_run_that_others_wrote_to_is_refused_with_both_commits(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    head = harness.repository.head(run_branch).commit
    foreign = harness.repository.commit({"data/foreign": b"x"}, branch=run_branch)
    reason = refused(await harness.report(), "PRG-N001")
    assert head in reason
    assert foreign in reason
    await harness.assert_untouched()
    assert run_branch in harness.repository.branch_names()


async def test_the_workspace_of_begin_is_refused_where_tasks_have_published(
    tmp_path: Path,
) -> None:
    harness = await waiting(tmp_path)
    run = await harness.begun()
    workspace = {**TARGET, "branch": run.run_branch, "ref": run.base}
    refused(await harness.finish_again(workspace=workspace), "PRG-N001")
    await harness.assert_untouched()


async def test_a_workspace_that_is_not_on_the_run_branch_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    workspace = {**TARGET, "ref": harness.input}
    refused(await harness.finish_again(workspace=workspace), "PRG-N002")


async def test_a_run_with_another_base_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run = {**(await harness.begun()).model_dump(), "base": harness.human()}
    refused(await harness.finish_again(run=run), "PRG-N002")
    await harness.assert_untouched()


async def test_a_run_that_names_a_commit_of_its_own_as_base_is_refused(tmp_path: Path) -> None:
    """Its tasks stand on that commit too; only the tag tells where the run began."""
    harness = await waiting(tmp_path)
    given = await harness.begun()
    (_, first, *_) = harness.repository.history(given.run_branch)
    run = {**given.model_dump(), "base": first.commit}
    refused(await harness.finish_again(run=run), "PRG-N002")
    await harness.assert_untouched()


async def test_a_run_with_the_branch_of_another_one_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    given = await harness.begun()
    other = f"{given.run_branch[:-1]}{'0' if given.run_branch[-1] != '0' else '1'}"
    run = {**given.model_dump(), "run_branch": other}
    refused(await harness.finish_again(run=run), "PRG-N002")
    await harness.assert_untouched()


async def test_a_run_of_another_target_is_refused(tmp_path: Path) -> None:
    """The other branch contains the base, so that nothing but the key tells the target."""
    harness = await waiting(tmp_path)
    given = await harness.begun()
    harness.repository.branch("other", given.base)
    run = {**given.model_dump(), "branch": "other"}
    reason = refused(await harness.finish_again(run=run), "PRG-N002")
    assert "other" in reason
    assert harness.repository.head("other").commit == given.base
    await harness.assert_untouched()


async def test_a_run_whose_branch_was_reset_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    root = harness.repository.history()[-1].commit
    reset_hard(harness.repository, root, run_branch)
    workspace = {**TARGET, "branch": run_branch, "ref": root}
    refused(await harness.finish_again(workspace=workspace), "PRG-N002")


@pytest.mark.parametrize("gone", ["branch", "tag"])
async def test_a_run_that_was_given_up_is_refused(tmp_path: Path, gone: str) -> None:
    harness = await waiting(tmp_path)
    run = await harness.begun()
    if gone == "branch":
        harness.repository.delete_branch(run.run_branch)
    else:
        harness.repository.delete_tag(f"perago-base-{run.key}")
    refused(await harness.report(), "PRG-N003")
    await harness.assert_untouched()


async def test_a_run_without_the_fence_in_its_head_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    run_branch = (await harness.begun()).run_branch
    head = harness.repository.commit({FENCE_PATH: None}, branch=run_branch)
    workspace = {**TARGET, "branch": run_branch, "ref": head}
    refused(await harness.finish_again(workspace=workspace), "PRG-F020")
    await harness.assert_untouched()


async def test_a_forged_decision_is_refused(tmp_path: Path) -> None:
    harness = await waiting(tmp_path)
    assert await harness.attempt(harness.worker([crash(before="merge")])) is None
    (tag,) = (
        name
        for name, commit in harness.repository.tags().items()
        if name.startswith("perago-settled-") and commit == harness.run_head
    )
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, harness.input)
    await harness.lose_lease()
    refused(await harness.report(), "PRG-F006")
