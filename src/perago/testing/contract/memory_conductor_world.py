"""The in-memory Conductor as the contract suites see it: time passes when it is told to."""

from typing import final

from perago.adapters.memory.clock import VirtualClock
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.task_definitions import MemoryTaskDefinitions
from perago.adapters.memory.task_queue import MemoryTaskQueue
from perago.adapters.memory.workflows import MemoryWorkflows
from perago.ports.task_definitions import TaskDefinitions
from perago.ports.task_queue import TaskQueue
from perago.ports.workflows import Workflows
from perago.testing.contract.conductor_world import ConductorWorld

CLOCK_STEP_SECONDS = 0.001


@final
class MemoryConductorWorld(ConductorWorld):
    """Ports of one worker and one operator on one in-memory server."""

    def __init__(self) -> None:
        self._clock = VirtualClock()
        self._conductor = MemoryConductor(self._clock)
        self._queue = MemoryTaskQueue(self._conductor)
        self._definitions = MemoryTaskDefinitions(self._conductor)
        self._workflows = MemoryWorkflows(self._conductor)
        self._names = 0

    @property
    def queue(self) -> TaskQueue:
        """The queue of one worker."""
        return self._queue

    @property
    def definitions(self) -> TaskDefinitions:
        """The definitions of the same server."""
        return self._definitions

    @property
    def workflows(self) -> Workflows:
        """The workflows of the same server."""
        return self._workflows

    def unique(self, stem: str) -> str:
        """Names are counted; every test has its own server."""
        self._names += 1
        return f"{stem}_{self._names}"

    async def nudge(self, workflow_id: str) -> None:
        """Step the clock by a millisecond and decide."""
        self._clock.advance(CLOCK_STEP_SECONDS)
        await self._workflows.decide(workflow_id)

    async def let_pass(self, seconds: float) -> None:
        """Move the clock; nobody sleeps in these tests."""
        self._clock.advance(seconds)
