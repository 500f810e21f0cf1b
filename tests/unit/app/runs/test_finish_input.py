"""Runs that finish refuses for what it was given, or for what became of them."""

from pathlib import Path

import pytest
from tests.people import reset_hard
from tests.unit.app.runs.run_world import TARGET, refused, waiting

from perago.domain.paths import FENCE_PATH
from perago.testing.faults import crash


async def test_a_run_that_others_wrote_to_is_refused_with_both_commits(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    run_branch = (await world.begun()).run_branch
    head = world.repository.head(run_branch).commit
    foreign = world.repository.commit({"data/foreign": b"x"}, branch=run_branch)
    reason = refused(await world.report(), "PRG-N001")
    assert head in reason
    assert foreign in reason
    await world.assert_untouched()
    assert run_branch in world.repository.branch_names()


async def test_the_workspace_of_begin_is_refused_where_tasks_have_published(
    tmp_path: Path,
) -> None:
    world = await waiting(tmp_path)
    run = await world.begun()
    workspace = {**TARGET, "branch": run.run_branch, "ref": run.base}
    refused(await world.finish_again(workspace=workspace), "PRG-N001")
    await world.assert_untouched()


async def test_a_workspace_that_is_not_on_the_run_branch_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    workspace = {**TARGET, "ref": world.input}
    refused(await world.finish_again(workspace=workspace), "PRG-N002")


async def test_a_run_with_another_base_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    run = {**(await world.begun()).model_dump(), "base": world.human()}
    refused(await world.finish_again(run=run), "PRG-N002")
    await world.assert_untouched()


async def test_a_run_that_names_a_commit_of_its_own_as_base_is_refused(tmp_path: Path) -> None:
    """Its tasks stand on that commit too; only the tag tells where the run began."""
    world = await waiting(tmp_path)
    given = await world.begun()
    (_, first, *_) = world.repository.history(given.run_branch)
    run = {**given.model_dump(), "base": first.commit}
    refused(await world.finish_again(run=run), "PRG-N002")
    await world.assert_untouched()


async def test_a_run_with_the_branch_of_another_one_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    given = await world.begun()
    other = f"{given.run_branch[:-1]}{'0' if given.run_branch[-1] != '0' else '1'}"
    run = {**given.model_dump(), "run_branch": other}
    refused(await world.finish_again(run=run), "PRG-N002")
    await world.assert_untouched()


async def test_a_run_of_another_target_is_refused(tmp_path: Path) -> None:
    """The other branch contains the base, so that nothing but the key tells the target."""
    world = await waiting(tmp_path)
    given = await world.begun()
    world.repository.branch("other", given.base)
    run = {**given.model_dump(), "branch": "other"}
    reason = refused(await world.finish_again(run=run), "PRG-N002")
    assert "other" in reason
    assert world.repository.head("other").commit == given.base
    await world.assert_untouched()


async def test_a_run_whose_branch_was_reset_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    run_branch = (await world.begun()).run_branch
    root = world.repository.history()[-1].commit
    reset_hard(world.repository, root, run_branch)
    workspace = {**TARGET, "branch": run_branch, "ref": root}
    refused(await world.finish_again(workspace=workspace), "PRG-N002")


@pytest.mark.parametrize("gone", ["branch", "tag"])
async def test_a_run_that_was_given_up_is_refused(tmp_path: Path, gone: str) -> None:
    world = await waiting(tmp_path)
    run = await world.begun()
    if gone == "branch":
        world.repository.delete_branch(run.run_branch)
    else:
        world.repository.delete_tag(f"perago-base-{run.key}")
    refused(await world.report(), "PRG-N003")
    await world.assert_untouched()


async def test_a_run_without_the_fence_in_its_head_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    run_branch = (await world.begun()).run_branch
    head = world.repository.commit({FENCE_PATH: None}, branch=run_branch)
    workspace = {**TARGET, "branch": run_branch, "ref": head}
    refused(await world.finish_again(workspace=workspace), "PRG-F020")
    await world.assert_untouched()


async def test_a_forged_decision_is_refused(tmp_path: Path) -> None:
    world = await waiting(tmp_path)
    assert await world.attempt(world.worker([crash(before="merge")])) is None
    (tag,) = (
        name
        for name, commit in world.repository.tags().items()
        if name.startswith("perago-settled-") and commit == world.run_head
    )
    world.repository.delete_tag(tag)
    world.repository.tag(tag, world.input)
    await world.lose_lease()
    refused(await world.report(), "PRG-F006")
