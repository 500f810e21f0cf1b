"""Workflows of one task on a real Conductor, for tests that look at one attempt."""

from dataclasses import dataclass

from tests.contract.real_conductor import RealConductor

from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.testing.contract.conductor_under_test import OWNER, simple, workflow_of


@dataclass(frozen=True, slots=True)
class OneTask:
    """A workflow definition with one task, under names of its own."""

    conductor: RealConductor
    name: str

    async def start(self) -> str:
        """Start a workflow; its id."""
        return await self.conductor.workflows.start(self.name, {})

    async def poll(self, worker_id: str, count: int = 1) -> tuple[AttemptRecord, ...]:
        """Take attempts of this task."""
        return await self.conductor.queue.poll(PollRequest(self.name, worker_id, count=count))

    async def polled(self, worker_id: str) -> AttemptSnapshot:
        """Take the one attempt that waits."""
        (record,) = await self.poll(worker_id)
        return record.snapshot

    async def complete(self, attempt: AttemptSnapshot, **output: object) -> None:
        """Complete an attempt as its holder."""
        assert attempt.worker_id is not None
        update = TerminalUpdate(attempt, attempt.worker_id, AttemptStatus.COMPLETED, output)
        await self.conductor.queue.complete(update, timeout_seconds=40)


async def one_task(conductor: RealConductor, *, response_timeout_seconds: int = 60) -> OneTask:
    """Register a task and a workflow of it."""
    name = conductor.unique("one")
    await conductor.definitions.put(
        {
            "name": name,
            "ownerEmail": OWNER,
            "retryCount": 3,
            "retryDelaySeconds": 0,
            "responseTimeoutSeconds": response_timeout_seconds,
            "timeoutSeconds": 0,
        }
    )
    await conductor.workflows.put_definition(workflow_of(name, simple(name, "only")))
    return OneTask(conductor, name)
