"""Task definitions of the in-memory Conductor, as one worker reaches them."""

from collections.abc import Mapping
from typing import final

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.json_copies import json_copy
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.ports.conductor import TaskDefinitions


@final
class MemoryTaskDefinitions(TaskDefinitions):
    """Operations are named `definitions.<method>` for the planned faults."""

    def __init__(self, conductor: MemoryConductor, worker: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._worker = WorkerHandle() if worker is None else worker

    async def read(self, name: str) -> Mapping[str, object] | None:
        return await self._worker.ask(
            "definitions.read", lambda: json_copy(self._conductor.state.definitions.get(name))
        )

    async def put(self, definition: Mapping[str, object]) -> None:
        await self._worker.perform(
            "definitions.put", lambda: self._conductor.put_task_definition(definition)
        )
