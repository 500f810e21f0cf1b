"""A pass keeps the checkpoints that an attempt may go on from, and removes the others."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

import perago
from perago import RetryPolicy, TaskControls, TaskFailed, WorkspaceSpec, task
from perago.app.gc.judging import Judged
from perago.app.gc.remote_pass import RemotePass
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX, key_of_checkpoint
from perago.domain.lakefs import BranchName
from perago.domain.logical_execution import decision_tag
from perago.domain.retention import RetentionTimes
from perago.testing import MemoryServers, PeragoEnvironment, Repository

HOUR = 3600
DAY = 24 * HOUR


class Params(BaseModel):
    """Nothing to say."""


@task(
    name="kept",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="data"),
    controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=7200)),
)
def kept(workspace: Path, params: Params) -> Params:
    """Keeps its state and fails."""
    (workspace / "state").write_text("state")
    perago.current_attempt().checkpoint(workspace / "state")
    raise TaskFailed("no more memory") from ValueError(params)


async def collect(env: PeragoEnvironment, repository: Repository) -> dict[str, Judged]:
    """One pass with the usual times; what it judged about checkpoints, by branch."""
    lakefs, conductor = env.servers.lakefs, env.servers.conductor
    clock, times = env.servers.clock, RetentionTimes()
    judged = await RemotePass(lakefs, conductor.queue, clock, repository.id, times).run()
    return {each.name: each for each in judged if each.kind == "checkpoint"}


async def checkpoints(repository: Repository) -> Mapping[BranchName, str]:
    """The checkpoint branches that are there."""
    found = await repository.branches()
    return {name: head for name, head in found.items() if name.startswith(CHECKPOINT_BRANCH_PREFIX)}


async def fail_for_good(env: PeragoEnvironment) -> Repository:
    """A workflow that has failed and left one checkpoint."""
    repository = await env.repository()
    await env.run(kept, repository)
    assert len(await checkpoints(repository)) == 1
    return repository


def pass_time(env: PeragoEnvironment, seconds: float) -> None:
    """Let time pass in which nothing happens."""
    assert isinstance(env.servers, MemoryServers)
    env.servers.virtual_clock.advance(seconds)


async def test_a_checkpoint_outlives_its_workflow_by_the_time_to_live(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await fail_for_good(perago_env)
    pass_time(perago_env, DAY - HOUR)
    (young,) = (await collect(perago_env, repository)).values()
    assert young.reason.startswith("its workflow is terminal, but it is younger than 24 h; it goes")
    pass_time(perago_env, 2 * HOUR)
    (old,) = (await collect(perago_env, repository)).values()
    assert old.removed
    assert await checkpoints(repository) == {}


async def test_a_checkpoint_of_a_live_workflow_is_kept_however_old(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository()
    none: dict[str, object] = {}
    given = {"params": {"kept": none}, "workspace": await repository.workspace()}
    run = await perago_env.start(kept, given)
    seen: list[Judged] = []

    async def look() -> None:
        seen.extend((await collect(perago_env, repository)).values())

    await perago_env.until_idle()
    await perago_env.servers.conductor.workflows.retry(run.id)
    pass_time(perago_env, 30 * DAY)
    await look()
    assert [each.reason for each in seen] == ["its workflow is not terminal"]


async def test_a_checkpoint_whose_execution_has_decided_goes_at_once(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await fail_for_good(perago_env)
    (branch,) = await checkpoints(repository)
    key = key_of_checkpoint(branch)
    assert key is not None
    head = await repository.head()
    await perago_env.servers.lakefs.tags.create(repository.id, decision_tag(key), head.commit)
    judged = await collect(perago_env, repository)
    assert judged[branch].reason == "its execution has decided"
    assert await checkpoints(repository) == {}


async def test_a_branch_without_a_commit_has_the_age_of_its_execution(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await fail_for_good(perago_env)
    (branch,) = await checkpoints(repository)
    head = await repository.head()
    lakefs = perago_env.servers.lakefs
    await lakefs.branches.delete(repository.id, branch)
    await lakefs.branches.create(repository.id, branch, head.commit)
    assert not (await collect(perago_env, repository))[branch].removed
    pass_time(perago_env, 2 * DAY)
    assert (await collect(perago_env, repository))[branch].removed


@pytest.mark.parametrize("name", ["perago-scratch-checkpoint-x", "perago-scratch-other"])
async def test_names_of_no_checkpoint_are_left_alone(
    perago_env: PeragoEnvironment, name: str
) -> None:
    repository = await perago_env.repository()
    await repository.create_branch(name)
    pass_time(perago_env, 300 * DAY)
    await collect(perago_env, repository)
    assert name in await repository.branches()
