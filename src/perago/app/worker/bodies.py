"""What a worker asks of the place where bodies run, be it threads or executors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perago.app.worker.stop_orders import StopOrders
from perago.ports.task_body import BodyCall, BodyOutcome


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """One slot as an operator sees it."""

    slot: int
    pid: int | None
    execution_id: str | None
    task_name: str | None


class Bodies(Protocol):
    """Runs bodies in slots; `start` first, `close` last. `orders` end what runs or is about to."""

    orders: StopOrders

    @property
    def ready(self) -> int:
        """How many bodies can run at once, now."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Tell when `ready` may have changed."""
        ...

    def facts(self) -> Sequence[SlotFacts]:
        """Every slot as it is now."""
        ...

    async def start(self) -> None:
        """Make every slot ready."""
        ...

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call in the next free slot."""
        ...

    def dump_stacks(self) -> None:
        """Have every slot write where it is to the log."""
        ...

    async def close(self) -> None:
        """End every slot."""
        ...
