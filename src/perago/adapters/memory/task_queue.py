"""The task queue as one worker reaches it: the shared Conductor through this worker's handle."""

from typing import final

from perago.adapters.memory.conductor_server import (
    VERSION,
    MemoryConductor,
    OpenWrite,
    Race,
)
from perago.adapters.memory.worker_handle import Turn, WorkerHandle
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, WorkflowSnapshot
from perago.ports.conductor import PollRequest, TaskQueue, TerminalUpdate


@final
class MemoryTaskQueue(TaskQueue):
    """Operations are named `queue.<method>` for the planned faults."""

    def __init__(self, conductor: MemoryConductor, worker: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._worker = WorkerHandle() if worker is None else worker

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """Not waited for on the server: a batch whose answer is lost is lost with it."""
        return await self._worker.ask("queue.poll", lambda: self._conductor.poll(request))

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        del workflow_id  # the server finds a row by its own id

        def read() -> AttemptRecord | None:
            row = self._conductor.state.find_row(task_id)
            return None if row is None else row.record()

        return await self._worker.ask("queue.read_attempt", read)

    async def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        def read() -> WorkflowSnapshot | None:
            run = self._conductor.state.runs.get(workflow_id)
            return None if run is None else run.snapshot()

        return await self._worker.ask("queue.read_workflow", read)

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        del worker_id  # a heartbeat leaves the row's worker as it is
        opened = await self._worker.perform(
            "queue.extend_lease", lambda: self._conductor.begin_extend_lease(attempt)
        )
        await self._land(opened)

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        del timeout_seconds  # no answer is late here; losing one is a planned fault
        opened = await self._worker.perform(
            "queue.complete", lambda: self._conductor.begin_complete(update)
        )
        await self._land(opened)

    async def log(self, task_id: str, line: str) -> None:
        await self._worker.perform("queue.log", lambda: self._conductor.log(task_id, line))

    async def read_log(self, task_id: str) -> tuple[str, ...]:
        return await self._worker.ask(
            "queue.read_log", lambda: tuple(self._conductor.state.logs.get(task_id, ()))
        )

    async def check(self) -> str:
        return await self._worker.ask("queue.check", lambda: VERSION)

    async def _land(self, opened: OpenWrite) -> None:
        """Give others the chance to come between a racy server's read and its write."""
        if self._conductor.race is not Race.NEVER:
            await Turn()
            opened.land()
