"""The way of one worker's calls to the servers in memory.

Nothing goes wrong here: `perago.testing.fault_injector` stands before the ports of any adapter and
lets the planned faults happen. The search for schedules overrides `ask` and `perform`, because it
has no event loop and decides itself when a call takes effect.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

Result = TypeVar("Result")


class Turn:
    """A bare yield: asyncio takes it as a pause, a scheduler as its chance to choose."""

    def __await__(self) -> Generator[None]:
        yield


class WorkerHandle:
    """Runs the effect of each call at once, after a turn: a request takes time, its effect none."""

    async def ask(self, operation: str, question: Callable[[], Result]) -> Result:
        """Run one read."""
        return await self.perform(operation, question)

    async def perform(self, operation: str, effect: Callable[[], Result]) -> Result:
        """Run one effect."""
        del operation  # for those who override this
        await Turn()
        return effect()
