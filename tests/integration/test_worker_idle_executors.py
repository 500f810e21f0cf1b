"""A worker whose executors die while they are idle: every workflow ends, no slot is lost.

The memory Conductor and real executor processes; the real servers' turn is `test_worker_kills`.
"""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

from tests.attempt_workers import attempt_worker
from tests.contract.body_tasks import OBEY
from tests.contract.task_bodies import MODULES, body_environment

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import WorkerHandle
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.polling import PolledType, ServiceGate
from perago.app.worker.process_body import ProcessBody
from perago.app.worker.worker import Worker, WorkerEnd, WorkerParts
from perago.domain.attempt import WorkflowStatus
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.servers import Surroundings

SLOTS = 3
RESPONSE_SECONDS = 3


def worker_of(conductor: ConductorInstallation, root: Path) -> tuple[Worker, ProcessBody]:
    """A worker of the suite's task, with executor processes."""
    clock = SystemClock()
    program = ExecutorProgram(MODULES, body_environment())
    bodies = ProcessBody(program, clock, slots=SLOTS)
    lakefs = lakefs_installation(MemoryLakeFS(), WorkerHandle())
    around = Surroundings(clock, root, SystemIdentities(), AsyncioConcurrency())
    made = attempt_worker(lakefs, conductor, around, [OBEY], AttemptSettings("me"))
    ask = conductor.queue.check
    gate = ServiceGate("conductor", ask, now=clock.monotonic, fraction=lambda: 1.0)
    parts = WorkerParts(
        ports=replace(made.harness, body=bodies),
        bodies=bodies,
        tasks=made.tasks,
        types=[PolledType(OBEY.name)],
        settings=made.settings,
        listeners=[],
        conductor_gate=gate,
        force_kill_seconds=1.0,
    )
    return Worker(parts), bodies


async def workflow_of_naps(conductor: ConductorInstallation) -> None:
    """A workflow of one task that is given up after a few seconds without a heartbeat."""
    definition = {"name": OBEY.name, "ownerEmail": "a@example.com", "retryCount": 0}
    timeouts = {"responseTimeoutSeconds": RESPONSE_SECONDS, "timeoutSeconds": 0}
    await conductor.definitions.put(definition | timeouts)
    row = simple(OBEY.name, "only", {"params": "${workflow.input.params}"})
    await conductor.workflows.put_definition(workflow_of("naps", row))


async def kill_idle_executors(bodies: ProcessBody) -> None:
    """SIGKILL all of them, and wait until each has a successor."""
    killed = {slot.pid for slot in bodies.facts()}
    for pid in killed:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while bodies.ready < SLOTS or killed & {slot.pid for slot in bodies.facts()}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_workflows_end_and_the_worker_drains_after_idle_executors_were_killed(
    tmp_path: Path,
) -> None:
    conductor = conductor_installation(MemoryConductor(SystemClock()), WorkerHandle())
    await workflow_of_naps(conductor)
    worker, bodies = worker_of(conductor, tmp_path)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        while bodies.ready < SLOTS:  # noqa: ASYNC110 - a test has no hook for it
            await asyncio.sleep(0.05)
    await kill_idle_executors(bodies)

    started = [
        await conductor.workflows.start("naps", {"params": {"what": "sleep", "number": number}})
        for number in (2, 0, 0, 0, 1, 0, 0, 0)
    ]
    ended: list[WorkflowStatus] = []
    async with asyncio.timeout(20):
        for workflow in started:
            while (record := await conductor.workflows.read(workflow)) is not None:
                if record.status is not WorkflowStatus.RUNNING:
                    ended.append(record.status)
                    break
                await asyncio.sleep(0.05)
    assert ended == [WorkflowStatus.COMPLETED] * len(started)
    await asyncio.wait_for(worker.attempts.all_ended(), 5)
    assert (worker.budget.taken, worker.budget.free) == (0, SLOTS)
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
