"""What heartbeats find out about an attempt that no longer counts, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import WorkerHandle
from perago.adapters.system import SystemClock
from perago.app.worker.attempts import Heartbeat, HeartbeatLease
from perago.domain.attempt import AttemptRecord, FenceVerdict, Stale, compare_wide
from perago.ports.conductor import PollRequest, Workflows
from perago.ports.errors import UnavailableError
from perago.ports.installations import ConductorInstallation
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import Fault, lose_answer, lose_request, refuse

PAUSE_SECONDS = 0.1


@dataclass
class Scene:
    """One attempt under way, and what its heartbeats told."""

    conductor: ConductorInstallation
    injector: FaultInjector
    record: AttemptRecord
    lost: list[Stale] = field(default_factory=list[Stale])
    told: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def workflow(self) -> str:
        """The attempt's workflow."""
        return self.record.snapshot.workflow_id

    async def beat(self) -> None:
        """Send one."""
        await self.conductor.queue.extend_lease(self.record.snapshot, "me")

    async def look(self) -> FenceVerdict:
        """The wide fence."""
        fresh = await self.conductor.queue.read_workflow(self.workflow)
        return compare_wide(self.record.snapshot, fresh)

    def note(self, stale: Stale) -> None:
        """Keep what was told."""
        self.lost.append(stale)
        self.told.set()

    def lease(self) -> HeartbeatLease:
        """Begin to beat."""
        heartbeat = Heartbeat(self.beat, self.look, self.note, PAUSE_SECONDS, lambda: 1.0)
        return HeartbeatLease(heartbeat, SystemClock()).start()


@pytest.fixture
async def scene() -> Scene:
    """An attempt that was polled a moment ago."""
    injector = FaultInjector()
    server = conductor_installation(MemoryConductor(SystemClock()), WorkerHandle())
    conductor = faulty_installation(server, injector)
    task = {"name": "t", "ownerEmail": "a@example.com", "responseTimeoutSeconds": 600}
    await conductor.definitions.put(task | {"timeoutSeconds": 0, "retryCount": 3})
    row = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}
    await conductor.workflows.put_definition(
        {"name": "wf", "version": 1, "ownerEmail": "a@example.com", "tasks": [row]}
    )
    await conductor.workflows.start("wf", {})
    (record,) = await conductor.queue.poll(PollRequest("t", "me"))
    return Scene(conductor, injector, record)


async def terminate(workflows: Workflows, workflow: str) -> None:
    await workflows.terminate(workflow, "by hand")


async def restart(workflows: Workflows, workflow: str) -> None:
    await workflows.terminate(workflow, "by hand")
    await workflows.restart(workflow)


async def retry(workflows: Workflows, workflow: str) -> None:
    await workflows.terminate(workflow, "by hand")
    await workflows.retry(workflow)


VERBS = [terminate, restart, retry]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_whatever_an_operator_does_between_two_beats_is_reported_by_the_next(
    scene: Scene, verb: Callable[[Workflows, str], Awaitable[None]]
) -> None:
    lease = scene.lease()
    await verb(scene.conductor.workflows, scene.workflow)
    await asyncio.wait_for(scene.told.wait(), 5)
    await lease.end()
    assert scene.injector.calls["queue.extend_lease"] == 1
    assert len(scene.lost) == 1


@pytest.mark.parametrize("fault", [lose_answer, lose_request])
async def test_a_beat_without_an_answer_is_followed_by_a_look_as_well(
    scene: Scene, fault: Callable[[str], Fault]
) -> None:
    scene.injector.plan(fault("queue.extend_lease"))
    lease = scene.lease()
    await terminate(scene.conductor.workflows, scene.workflow)
    await asyncio.wait_for(scene.told.wait(), 5)
    await lease.end()
    assert scene.injector.calls["queue.extend_lease"] == 1


async def test_a_beat_that_could_not_be_sent_is_followed_by_the_next_beat(scene: Scene) -> None:
    scene.injector.plan(refuse("queue.extend_lease", UnavailableError("refused")))
    lease = scene.lease()
    await terminate(scene.conductor.workflows, scene.workflow)
    await asyncio.wait_for(scene.told.wait(), 5)
    await lease.end()
    assert scene.injector.calls["queue.extend_lease"] == 2
    assert scene.injector.calls["queue.read_workflow"] == 1


async def test_a_look_without_an_answer_is_made_again_after_the_next_beat(scene: Scene) -> None:
    scene.injector.plan(refuse("queue.read_workflow", UnavailableError("refused")))
    lease = scene.lease()
    await terminate(scene.conductor.workflows, scene.workflow)
    await asyncio.wait_for(scene.told.wait(), 5)
    await lease.end()
    assert scene.injector.calls["queue.extend_lease"] == 2


async def test_a_healthy_attempt_gets_no_order(scene: Scene) -> None:
    lease = scene.lease()
    await asyncio.sleep(5 * PAUSE_SECONDS)
    await lease.end()
    assert scene.injector.calls["queue.extend_lease"] > 1
    assert scene.lost == []
