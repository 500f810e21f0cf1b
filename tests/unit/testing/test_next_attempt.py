"""Attempts one by one: with faults of their own, and with what they leave to be looked at."""

import asyncio
from pathlib import Path

import pytest
from tests.kit_cases import attempts_one_by_one, counting_task, given_to_clean

from perago.ports.errors import RequestRefusedError
from perago.testing import (
    MemoryServers,
    PeragoEnvironment,
    always,
    crash,
    outage,
    refuse,
)
from perago.testing.environment import FaultOfUnknownTaskError


async def two_that_wait(servers: MemoryServers) -> PeragoEnvironment:
    """An environment in which two workflows of one task wait for a worker."""
    env = PeragoEnvironment(servers=servers)
    clean, _ = counting_task()
    given = await given_to_clean(await env.repository("repo"))
    for _ in range(2):
        await env.start(clean, given)
    return env


async def test_attempts_one_by_one_with_faults_of_their_own(perago_env: PeragoEnvironment) -> None:
    await attempts_one_by_one(perago_env)


async def test_a_fault_of_each_time_ends_with_its_attempt(perago_memory: MemoryServers) -> None:
    env = await two_that_wait(perago_memory)
    refused = always(refuse("branch", RequestRefusedError("no")))
    assert (await env.next_attempt(refused)).status == "FAILED"
    assert (await env.next_attempt()).accepted


async def test_a_fault_that_did_not_happen_fails_the_test_and_no_other_attempt(
    perago_memory: MemoryServers,
) -> None:
    env = await two_that_wait(perago_memory)
    with pytest.raises(AssertionError, match=r"ended as COMPLETED.*: before merge .call 9"):
        await env.next_attempt(crash(before="merge", nth=9))
    with pytest.raises(FaultOfUnknownTaskError, match="for task 'cleam'"):
        await env.next_attempt(crash(before="merge", task="cleam"))
    assert env.pending_faults == ()


async def test_one_row_is_one_attempt_where_several_tasks_wait(
    perago_memory: MemoryServers,
) -> None:
    env = PeragoEnvironment(servers=perago_memory)
    clean, runs = counting_task()
    mix, mixed = counting_task("mix")
    repository = await env.repository("repo")
    place = await repository.workspace()
    for each in (clean, mix):
        await env.start(each, {"workspace": place, "params": {"clean": {}, "mix": {}}})
    await env.next_attempt()
    assert (len(env.attempts), len(runs) + len(mixed)) == (1, 1)


async def test_the_call_after_which_a_service_is_away_took_effect(
    perago_memory: MemoryServers,
) -> None:
    env = PeragoEnvironment(servers=perago_memory, policy="head-parent")
    clean, _ = counting_task()
    env.use_patience(0)
    repository = await env.repository("repo")
    before = await repository.history()
    await env.start(clean, await given_to_clean(repository))
    story = await env.next_attempt(outage(after="merge", seconds=1000))
    assert story.status != "COMPLETED"
    assert len(await repository.history()) > len(before), "the merge arrived"


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
