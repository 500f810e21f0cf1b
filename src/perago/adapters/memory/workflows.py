"""Workflows of the in-memory Conductor, as an operator reaches them."""

from collections.abc import Mapping
from typing import final

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.attempt import AttemptRecord
from perago.ports.conductor import NO_DOMAINS, WorkflowRecord, Workflows


@final
class MemoryWorkflows(Workflows):
    """Operations are named `workflows.<method>` for the planned faults."""

    def __init__(self, conductor: MemoryConductor, operator: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._operator = WorkerHandle() if operator is None else operator

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        await self._operator.perform(
            "workflows.put_definition",
            lambda: self._conductor.put_workflow_definition(definition),
        )

    async def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str] = NO_DOMAINS,
    ) -> str:
        return await self._operator.perform(
            "workflows.start",
            lambda: self._conductor.start(
                name, workflow_input, version=version, task_to_domain=task_to_domain
            ),
        )

    async def read(self, workflow_id: str) -> WorkflowRecord | None:
        def read() -> WorkflowRecord | None:
            run = self._conductor.state.runs.get(workflow_id)
            return None if run is None else run.record()

        return await self._operator.ask("workflows.read", read)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        await self._operator.perform(
            "workflows.terminate", lambda: self._conductor.terminate(workflow_id, reason)
        )

    async def pause(self, workflow_id: str) -> None:
        await self._operator.perform("workflows.pause", lambda: self._conductor.pause(workflow_id))

    async def resume(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.resume", lambda: self._conductor.resume(workflow_id)
        )

    async def retry(self, workflow_id: str) -> None:
        await self._operator.perform("workflows.retry", lambda: self._conductor.retry(workflow_id))

    async def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        await self._operator.perform(
            "workflows.rerun",
            lambda: self._conductor.rerun(workflow_id, from_task_id, task_input),
        )

    async def restart(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.restart", lambda: self._conductor.restart(workflow_id)
        )

    async def requeue(self, task_type: str) -> None:
        await self._operator.perform(
            "workflows.requeue", lambda: self._conductor.requeue(task_type)
        )

    async def release_without_result(self, attempt: AttemptRecord) -> None:
        await self._operator.perform(
            "workflows.release_without_result",
            lambda: self._conductor.release(attempt.snapshot),
        )

    async def decide(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.decide", lambda: self._conductor.decide(workflow_id)
        )
