"""What the kit's soundness checks see: every branch that a run published to, whatever its name."""

from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel
from tests.people import cherry_pick, reset_hard

from perago import WorkspaceSpec, task
from perago.testing import MemoryServers, PeragoEnvironment, Repository, crash, sequence

BRANCHES = ["main", "dev"]


class Nothing(BaseModel):
    """Nothing to choose."""


@task(name="edit", owner_email="data@example.com", workspace=WorkspaceSpec())
def edit(workspace: Path, params: Nothing) -> Nothing:
    """Write one more file."""
    (workspace / f"{len(list(workspace.iterdir()))}.txt").write_text("x")
    return params


@task(
    name="look", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="a", read_only=True)
)
def look(workspace: Path, params: Nothing) -> Nothing:
    """Read only."""
    del workspace
    return params


async def _repository(env: PeragoEnvironment, branch: str) -> Repository:
    repository = await env.repository("repo", {"a": "1"})
    if branch != "main":
        await repository.create_branch(branch)
    return repository


@pytest.mark.parametrize("branch", BRANCHES)
async def test_an_abandoned_publication_is_seen_on_the_branch_of_the_run(branch: str) -> None:
    with PeragoEnvironment(policy="lineage", fence=False) as env:
        repository = await _repository(env, branch)
        env.plan(crash(after="merge"))
        await env.assert_completed(await env.run(edit, repository, branch=branch))
        (broken,) = await env.check_invariants(settled=True)
        assert broken.startswith("abandoned: ")
        assert f"is on {branch}, and Conductor accepted no attempt with it" in broken


@pytest.mark.parametrize("branch", BRANCHES)
async def test_a_repeated_publication_is_seen_on_the_branch_of_the_run(branch: str) -> None:
    ground = MemoryServers()
    with PeragoEnvironment(servers=ground) as env:
        repository = await _repository(env, branch)
        run = await env.run(edit, repository, branch=branch)
        assert await env.check_invariants() == []
        builder = ground.builders[repository.id]
        cherry_pick(builder, await run.published("edit"), branch)  # copies the metadata
        broken = await env.check_invariants()
        assert [text.split(":")[0] for text in broken] == ["repeated", "abandoned"]
        assert all(f" {branch}" in text for text in broken)


@pytest.mark.parametrize("branch", BRANCHES)
async def test_a_publication_that_only_another_branch_still_has_is_lost(branch: str) -> None:
    ground = MemoryServers()
    with PeragoEnvironment(servers=ground) as env:
        repository = await _repository(env, branch)
        start = (await repository.head(branch)).commit
        run = await env.run(edit, repository, branch=branch)
        published = await run.published("edit")
        builder = ground.builders[repository.id]
        builder.branch("copy", published)
        reset_hard(builder, start, branch)
        (broken,) = await env.check_invariants()
        assert broken == (
            f"lost: the accepted publication {published[:8]} of edit is not on {branch}"
        )


async def test_a_read_only_task_hands_on_a_commit_that_need_not_be_on_the_branch(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await _repository(perago_env, "dev")
    elsewhere = await repository.commit({"b": "2"}, "dev")
    given = {"workspace": await repository.workspace("main", elsewhere)}
    await perago_env.register(look)
    run = await perago_env.start(sequence("look", look), {**given, "params": {"look": {}}})
    await perago_env.until_idle()
    await perago_env.assert_completed(run)
    await perago_env.assert_sound()


async def test_the_publications_inside_a_sub_workflow_are_accepted_ones(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await _repository(perago_env, "dev")
    await perago_env.register(edit)
    child = sequence("child", edit, edit)
    first, second = cast("list[dict[str, object]]", child["tasks"])
    first |= {"taskReferenceName": "first"}
    second |= {"taskReferenceName": "second"}
    second["inputParameters"] = {"workspace": "${first.output.workspace}", "params": {}}
    first["inputParameters"] = {"workspace": "${workflow.input.workspace}", "params": {}}
    await perago_env.define({**child, "outputParameters": {"last": "${second.output.workspace}"}})
    step = {"name": "sub", "taskReferenceName": "sub", "type": "SUB_WORKFLOW"}
    inner = {"subWorkflowParam": {"name": "child", "version": 1}}
    given = {"inputParameters": {"workspace": "${workflow.input.workspace}"}}
    parent = {**sequence("parent"), "tasks": [{**step, **inner, **given}]}
    run = await perago_env.start(parent, {"workspace": await repository.workspace("dev")})
    await perago_env.until_idle()
    await perago_env.assert_completed(run)
    assert len((await perago_env.story()).accepted_commits()) == 2
    await perago_env.assert_sound()
