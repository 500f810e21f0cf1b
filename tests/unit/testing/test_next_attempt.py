"""Attempts one by one: with faults of their own, and with what they leave to be looked at."""

import asyncio
from pathlib import Path

import pytest
from tests.kit_cases import counting_task

from perago.ports.errors import RequestRefusedError
from perago.testing import (
    MemoryServers,
    PeragoEnvironment,
    Repository,
    always,
    crash,
    outage,
    refuse,
    zombie,
)


async def given_to_clean(repository: Repository) -> dict[str, object]:
    """The input of a workflow of `clean` alone."""
    return {"workspace": await repository.workspace(), "params": {"clean": {}}}


async def test_attempts_one_by_one_with_faults_of_their_own(perago_env: PeragoEnvironment) -> None:
    """Between two of them a test looks at what the first has left."""
    clean, runs = counting_task()
    repository = await perago_env.repository("repo", {"data/in.txt": "in"})
    given = await given_to_clean(repository)
    run = await perago_env.start(clean, given)

    died = await perago_env.next_attempt(crash(after="decide"))
    assert (died.number, died.status, runs) == (1, "DIED", [1])
    assert len(await repository.history()) == 2, "nothing is published"
    stopped = await perago_env.next_attempt(zombie(before="merge"))
    assert (stopped.number, stopped.status) == (2, "RUNNING")
    assert await run.status() == "RUNNING"
    await perago_env.until_idle()

    await perago_env.assert_completed(run)
    assert (runs, perago_env.pending_faults) == ([1], ())
    await perago_env.assert_sound()


async def test_a_fault_of_each_time_ends_with_its_attempt(perago_memory: MemoryServers) -> None:
    env = PeragoEnvironment(servers=perago_memory)
    clean, _ = counting_task()
    repository = await env.repository("repo")
    given = await given_to_clean(repository)
    for _ in range(2):
        await env.start(clean, given)
    refused = always(refuse("branch", RequestRefusedError("no")))
    assert (await env.next_attempt(refused)).status == "FAILED"
    assert (await env.next_attempt()).accepted


async def test_where_nothing_waits_there_is_no_next_attempt(
    perago_memory: MemoryServers,
) -> None:
    env = PeragoEnvironment(servers=perago_memory)
    clean, _ = counting_task()
    await env.run(clean, await env.repository("repo"))
    with pytest.raises(AssertionError, match="no attempt waits"):
        await env.next_attempt()


async def test_patience_can_be_shortened(perago_memory: MemoryServers) -> None:
    env = PeragoEnvironment(servers=perago_memory)
    clean, _ = counting_task()
    env.use_patience(2)
    env.plan(outage(before="branch", seconds=1000))
    await env.run(clean, await env.repository("repo"))
    assert "until PERAGO_PATIENCE was over" in str(env.attempts[0].reason)


def test_a_root_that_was_given_has_the_directories_and_outlives_the_servers(
    tmp_path: Path,
) -> None:
    async def die() -> None:
        clean, _ = counting_task()
        with PeragoEnvironment(servers=MemoryServers(root=tmp_path)) as env:
            repository = await env.repository("repo")
            given = await given_to_clean(repository)
            await env.start(clean, given)
            await env.next_attempt(crash(after="decide"))

    asyncio.run(die())
    assert len(list(tmp_path.rglob(".perago-attempt.json"))) == 1
