"""Forks as the kit writes them: branches that fail and die, a hundred items on one branch."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.prefixed_songs import count_songs_in_a_dynamic_fork

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.testing import (
    Fault,
    PeragoEnvironment,
    crash,
    expire_lease,
    fork,
    lose_answer,
)

RETRIES = TaskControls(retry=RetryPolicy(count=5, delay_seconds=0))


class Params(BaseModel):
    """How often the task fails before it does not."""

    failures: int = 0


class Done(BaseModel):
    """Nothing to say."""


RUNS: list[str] = []


def _fail_first(name: str, failures: int) -> None:
    RUNS.append(name)
    if RUNS.count(name) <= failures:
        raise ConnectionError("the source does not answer")


@task(
    name="left",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="left", isolation="prefix"),
    controls=RETRIES,
)
def left(workspace: Path, params: Params) -> Done:
    """One side."""
    _fail_first("left", params.failures)
    (workspace / "out.txt").write_text("left")
    return Done()


@task(
    name="right",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="right", isolation="prefix"),
    controls=RETRIES,
)
def right(workspace: Path, params: Params) -> Done:
    """The other side."""
    _fail_first("right", params.failures)
    (workspace / "out.txt").write_text("right")
    return Done()


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [crash(before="merge", task="left")],
        [crash(after="merge", task="right"), crash(before="merge", task="left")],
        [expire_lease(task="left"), lose_answer("merge", task="right")],
    ],
    ids=["all is well", "one dies", "both die", "one is slow and one gets no answer"],
)
async def test_a_fork_ends_with_the_work_of_all_branches(
    perago_env: PeragoEnvironment, faults: Sequence[Fault]
) -> None:
    RUNS.clear()
    repository = await perago_env.repository("sides", {"left/in.txt": "x"})
    await perago_env.register(left, right)
    perago_env.plan(*faults)
    params = {"left": {"failures": 2}, "right": {"failures": 3}}
    given = {"workspace": await repository.workspace(), "params": params}
    run = await perago_env.start(fork("sides", left, right), given)
    await perago_env.until_idle()
    await perago_env.assert_completed(run)
    expected = {"left/in.txt": "x", "left/out.txt": "left", "right/out.txt": "right"}
    await perago_env.assert_files(repository, expected)
    output = await run.output()
    assert output["workspace"] == await repository.workspace()
    assert output["results"] == {"left": {}, "right": {}}
    await perago_env.assert_sound()


@pytest.mark.parametrize("number", [1, 100])
async def test_a_dynamic_fork_publishes_every_item_below_its_own_prefix_on_one_branch(
    perago_env: PeragoEnvironment, number: int
) -> None:
    perago_env.plan(crash(before="merge", task="songs_count"))
    await count_songs_in_a_dynamic_fork(perago_env, number)


@pytest.mark.parametrize("failures", [1, 99], ids=["a branch is retried", "a branch fails"])
async def test_a_fork_in_a_transaction_shows_all_branches_or_none(
    perago_env: PeragoEnvironment, failures: int
) -> None:
    RUNS.clear()
    repository = await perago_env.repository("sides", {"left/in.txt": "x"})
    await perago_env.register(left, right)
    params = {"left": {}, "right": {"failures": failures}}
    given = {"workspace": await repository.workspace(), "params": params}
    run = await perago_env.start(fork("sides", left, right, transaction=True), given)
    await perago_env.until_idle()
    expected = {"left/in.txt": "x"}
    if failures == 1:
        await perago_env.assert_completed(run)
        expected |= {"left/out.txt": "left", "right/out.txt": "right"}
    await perago_env.assert_files(repository, expected)
    await perago_env.assert_sound()
