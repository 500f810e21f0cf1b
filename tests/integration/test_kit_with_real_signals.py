"""Crashes and zombies as the operating system makes them: the outcomes are those of the table.

The first attempt runs in a process that kills or stops itself at the moment of the fault; the
environment of the test is its parent, and the next worker. Nothing is wrapped or pretended.
"""

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.integration.signalled_worker import struck_process
from tests.integration.worker_scene import process_file
from tests.kit_cases import CASES, DIED, Case, counted_repository, counting_task, observed

from perago.domain.attempt import AttemptStatus
from perago.ports.conductor import TerminalUpdate
from perago.testing import Crash, PeragoEnvironment, Zombie
from perago.testing.remote_servers import RealServers, RemoteServers

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
# A process that starts on a busy machine has to come to its fault within its lease.
ZOMBIE_SECONDS, CRASH_SECONDS = 20, 300
LOOK_SECONDS = 0.05
LOOKS_MAX = 1200
SIGNALLED = [
    case
    for case in CASES
    if case.id
    in {
        "crash before staging",
        "crash before the merge",
        "crash after the merge",
        "a zombie wakes after the acceptance",
    }
]


@pytest.fixture
def perago_servers(kit_servers: RealServers, case: Case) -> Iterator[RemoteServers]:
    """Those servers; only a zombie's lease has to run out."""
    stands_still = isinstance(case.faults[0], Zombie)
    ground = RemoteServers(
        kit_servers, lease_seconds=ZOMBIE_SECONDS if stands_still else CRASH_SECONDS
    )
    yield ground
    ground.close()


async def _outcome(env: PeragoEnvironment, case: Case) -> object:
    """The first attempt in a signalled process, the rest here."""
    (fault,) = case.faults
    assert isinstance(fault, Crash | Zombie)
    clean, runs = counting_task()
    repository, start = await counted_repository(env)
    run = await env.start(
        clean, {"workspace": await repository.workspace(), "params": {"clean": {}}}
    )
    policy = env.settings.publication
    assert isinstance(env.servers, RemoteServers)
    process = await struck_process(env.servers, policy, fault)
    first = await _first_end(env, process, fault)
    seen = await observed(env, run, start, runs=1 + len(runs))
    return replace(seen, ends=(first, *seen.ends))


async def _first_end(
    env: PeragoEnvironment, process: asyncio.subprocess.Process, fault: Crash | Zombie
) -> str:
    """Wait for the strike, do the rest, let a stopped process go on; how its attempt ended."""
    if isinstance(fault, Crash):
        said, _ = await process.communicate()
        assert process.returncode == -signal.SIGKILL, said.decode()
        await _report_death(env)
        await env.until_idle()
        return DIED
    await _stopped(process)
    await env.until_idle()
    process.send_signal(signal.SIGCONT)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode().strip()


async def _report_death(env: PeragoEnvironment) -> None:
    """What a worker's parent does; without one the lease would run out."""
    (row,) = await env.runs[0].attempts()
    attempt = row.snapshot
    update = TerminalUpdate(attempt, str(attempt.worker_id), AttemptStatus.FAILED, reason="died")
    await env.servers.conductor.queue.complete(update, timeout_seconds=LOOKS_MAX * LOOK_SECONDS)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    for _ in range(LOOKS_MAX):
        if process.returncode is not None:
            said, _ = await process.communicate()
            raise AssertionError(f"it ended with {process.returncode}: {said.decode()}")
        if process_file(process.pid, "stat").rpartition(")")[2].split()[0] == "T":
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError("it never stood still")


def test_every_signal_is_in_a_case_of_both_policies() -> None:
    struck = [type(fault) for case in SIGNALLED for fault in case.faults]
    assert len(SIGNALLED) == 4
    assert {kind: struck.count(kind) for kind in struck} == {Crash: 3, Zombie: 1}


@pytest.mark.perago(policy="settled")
@pytest.mark.parametrize("case", SIGNALLED, ids=lambda case: case.id)
async def test_settled(perago_env: PeragoEnvironment, case: Case) -> None:
    found = await _outcome(perago_env, case)
    assert found == case.settled, await perago_env.story_text()


@pytest.mark.perago(policy="head-parent")
@pytest.mark.parametrize("case", SIGNALLED, ids=lambda case: case.id)
async def test_head_parent(perago_env: PeragoEnvironment, case: Case) -> None:
    found = await _outcome(perago_env, case)
    assert found == case.head_parent, await perago_env.story_text()
