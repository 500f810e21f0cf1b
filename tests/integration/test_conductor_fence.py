"""The four holes of the narrow attempt fence on a real Conductor, and that the wide one has none.

Two holes are races of the server's unlocked row updates: they are provoked until one shows.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

import pytest
import pytest_asyncio
from tests.contract.real_conductor import RealConductor, connected
from tests.integration.conductor_scene import OneTask, one_task
from tests.redelivery import release

from perago.domain.attempt import (
    AttemptSnapshot,
    AttemptStatus,
    Current,
    FenceVerdict,
    Stale,
    compare_narrow,
    compare_wide,
)
from perago_servers import ConductorServer

pytestmark = pytest.mark.conductor

Recorder: TypeAlias = Callable[[str, object], None]
AT_ONCE = 12
ROUNDS_MAX = 20
HEARTBEATS = 4


@pytest_asyncio.fixture
async def conductor(conductor_server: ConductorServer) -> AsyncGenerator[RealConductor]:
    async with connected(conductor_server) as harness:
        yield harness


async def narrow(conductor: RealConductor, attempt: AttemptSnapshot) -> FenceVerdict:
    row = await conductor.queue.read_attempt(attempt.workflow_id, attempt.task_id)
    return compare_narrow(attempt, row.snapshot if row else None)


async def wide(conductor: RealConductor, attempt: AttemptSnapshot) -> FenceVerdict:
    return compare_wide(attempt, await conductor.queue.read_workflow(attempt.workflow_id))


def stale_field(verdict: FenceVerdict) -> str:
    assert isinstance(verdict, Stale)
    return verdict.field


async def test_a_healthy_attempt_passes_both_before_and_after_a_heartbeat(
    conductor: RealConductor,
) -> None:
    task = await one_task(conductor)
    workflow_id = await task.start()
    mine = await task.polled("mine")
    for _ in range(2):
        assert await narrow(conductor, mine) == Current()
        assert await wide(conductor, mine) == Current()
        await conductor.queue.extend_lease(mine, "mine")
        await conductor.workflows.pause(workflow_id)  # a paused workflow is no reason to stop


async def test_hole_1_after_a_rerun_the_old_holder_passes_the_narrow_fence(
    conductor: RealConductor,
) -> None:
    task = await one_task(conductor)
    workflow_id = await task.start()
    old = await task.polled("old")
    await conductor.workflows.terminate(workflow_id, "an operator's choice")
    await conductor.workflows.rerun(workflow_id, old.task_id)
    new = await task.polled("new")

    assert (new.task_id, new.retry_count, new.poll_count) == (old.task_id, 0, 1)
    assert await narrow(conductor, old) == Current()
    assert stale_field(await wide(conductor, old)) == "start_time"
    assert await wide(conductor, new) == Current()

    # What follows when nobody looks wider: the old holder's result is taken for the new one's.
    await task.complete(old, by="old")
    row = await conductor.queue.read_attempt(workflow_id, new.task_id)
    assert row is not None
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.COMPLETED, {"by": "old"})


@pytest.mark.parametrize("how", ["released", "requeued"])
async def test_hole_2_after_a_redelivery_the_old_holder_passes_the_narrow_fence(
    conductor: RealConductor, how: str
) -> None:
    task = await one_task(conductor)
    await task.start()
    (record,) = await task.poll("old")
    old = record.snapshot
    if how == "released":
        await release(conductor.queue, record)
    else:
        await conductor.workflows.requeue(task.name)
    new = await task.polled("new")

    assert (new.task_id, new.retry_count) == (old.task_id, old.retry_count)
    assert await narrow(conductor, old) == Current()
    assert stale_field(await wide(conductor, old)) == "poll_count"
    assert await wide(conductor, new) == Current()


async def held(task: OneTask) -> list[AttemptSnapshot]:
    """Start several workflows and hold their attempts."""
    for _ in range(AT_ONCE):
        await task.start()
    polled: list[AttemptSnapshot] = []
    while len(polled) < AT_ONCE:
        polled += [record.snapshot for record in await task.poll("old", AT_ONCE)]
    return polled


async def beside_heartbeats(
    conductor: RealConductor, attempt: AttemptSnapshot, end: Awaitable[None]
) -> None:
    """Send what ends the attempt between its heartbeats, all at once."""
    beats = [conductor.queue.extend_lease(attempt, "old") for _ in range(HEARTBEATS)]
    await asyncio.gather(*beats[: HEARTBEATS // 2], end, *beats[HEARTBEATS // 2 :])


async def test_hole_3_a_heartbeat_beside_a_termination_leaves_a_running_row(
    conductor: RealConductor, record_property: Recorder
) -> None:
    task = await one_task(conductor)
    seen = tried = 0
    for _ in range(ROUNDS_MAX):
        attempts = await held(task)
        terminate = conductor.workflows.terminate
        await asyncio.gather(
            *(beside_heartbeats(conductor, old, terminate(old.workflow_id, "")) for old in attempts)
        )
        for attempt in attempts:
            assert stale_field(await wide(conductor, attempt)) == "workflow_status"
            seen += await narrow(conductor, attempt) == Current()
        tried += len(attempts)
        if seen:
            break
    record_property("rows left running in a terminated workflow", f"{seen} of {tried}")
    assert seen, f"the narrow fence noticed all {tried} terminations: the hole has closed"


async def outlive_the_first_sweep(
    conductor: RealConductor, attempts: list[AttemptSnapshot]
) -> None:
    """Let leases of a second run out unnoticed: the next sweep is a minute away."""
    await asyncio.sleep(0.7)
    await asyncio.gather(*(conductor.queue.extend_lease(attempt, "old") for attempt in attempts))
    await asyncio.sleep(1.3)


async def test_hole_4_a_heartbeat_beside_a_time_out_leaves_two_running_attempts(
    conductor: RealConductor, record_property: Recorder
) -> None:
    task = await one_task(conductor, response_timeout_seconds=1)
    seen = tried = 0
    for _ in range(ROUNDS_MAX):
        attempts = await held(task)
        await outlive_the_first_sweep(conductor, attempts)
        for attempt in attempts:
            await asyncio.gather(
                conductor.workflows.decide(attempt.workflow_id),
                conductor.queue.extend_lease(attempt, "old"),
            )
        retries = {
            record.snapshot.workflow_id: record.snapshot
            for record in await task.poll("new", AT_ONCE)
        }
        for attempt in attempts:
            if retry := retries.get(attempt.workflow_id):
                seen += await passes_beside(conductor, attempt, retry)
            await conductor.workflows.terminate(attempt.workflow_id, "the round is over")
        tried += len(attempts)
        if seen:
            break
    record_property("attempts running beside their retry", f"{seen} of {tried}")
    assert seen, f"the narrow fence noticed all {tried} time-outs: the hole has closed"


async def passes_beside(
    conductor: RealConductor, old: AttemptSnapshot, retry: AttemptSnapshot
) -> bool:
    """Whether the narrow fence lets the old attempt pass; the wide one never does."""
    assert retry.retried_task_id == old.task_id
    assert await narrow(conductor, retry) == Current()
    assert await wide(conductor, retry) == Current()
    assert stale_field(await wide(conductor, old)) == "task_id"
    return await narrow(conductor, old) == Current()
