"""The kit's cases on real servers, with the outcomes that the unit tests see in memory.

Faults strike the adapters' ports: requests really travel, leases really end. Most of a case is
waiting for a lease, so several run at once, each with its own repository, workflow and domain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.approved_runs import approve_a_run, refuse_a_run
from tests.kit_cases import CASES, Case, Outcome, attempts_one_by_one, outcome_of
from tests.prefixed_songs import (
    SongTask,
    assert_each_song_has_its_folder,
    count_songs_in_a_dynamic_fork,
    two_songs_on_one_commit,
)

from perago.testing import PeragoEnvironment, crash
from perago.testing.remote_servers import RealServers, RemoteServers

AT_ONCE = 6  # more would let leases of four seconds end on a busy machine


Environments = Callable[[str], PeragoEnvironment]


@pytest.fixture
def environments(kit_servers: RealServers) -> Iterator[Environments]:
    """Make a harness of its own for each case; all are closed when no loop runs any more."""
    with ExitStack() as opened:
        yield lambda policy: opened.enter_context(
            PeragoEnvironment(policy=policy, servers=RemoteServers(kit_servers))
        )


async def difference(env: PeragoEnvironment, case: Case, expected: Outcome) -> str:
    """Run a case; say how it differs from what is expected, nothing if it does not."""
    found = await outcome_of(env, case.faults)
    if found == expected:
        return ""
    return f"{case.id}: expected {expected}, found {found}\n{await env.story_text()}"


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.parametrize("policy", ["settled", "head-parent"])
async def test_every_case_ends_as_in_memory(environments: Environments, policy: str) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(case: Case) -> str:
        expected = case.settled if policy == "settled" else case.head_parent
        async with turns:
            return await difference(environments(policy), case, expected)

    differences = await asyncio.gather(*(in_turn(case) for case in CASES))
    assert not any(differences), "\n\n".join(filter(None, differences))


@pytest.mark.lakefs
@pytest.mark.conductor
async def test_attempts_one_by_one(environments: Environments) -> None:
    await attempts_one_by_one(environments("settled"))


@pytest.mark.lakefs
@pytest.mark.conductor
async def test_two_songs_of_one_commit_are_published_each_below_its_own_prefix(
    environments: Environments,
) -> None:
    env, songs = environments("settled"), SongTask()
    repository, runs = await two_songs_on_one_commit(env, songs)
    await assert_each_song_has_its_folder(env, repository, runs, songs)


@pytest.mark.lakefs
@pytest.mark.conductor
async def test_a_dynamic_fork_publishes_every_item_below_its_own_prefix_on_one_branch(
    environments: Environments,
) -> None:
    env = environments("settled")
    env.plan(crash(before="merge", task="songs_count"))
    await count_songs_in_a_dynamic_fork(env, 6)


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.parametrize("ends", [approve_a_run, refuse_a_run])
async def test_a_run_that_waits_for_a_person_ends_as_the_person_says(
    environments: Environments, ends: Callable[[PeragoEnvironment], Awaitable[None]]
) -> None:
    await ends(environments("settled"))
