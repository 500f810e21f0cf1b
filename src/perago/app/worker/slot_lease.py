"""The lease of an attempt in a worker: its end also frees the attempt's slot.

From then on only a terminal update is on its way, and the next attempt may be polled.
"""

from collections.abc import Callable
from typing import final

from perago.ports.lease import Lease


@final
class SlotLease(Lease):
    """Ends the heartbeats, then gives the slot back, once."""

    def __init__(self, lease: Lease, free_slot: Callable[[], None]) -> None:
        self._lease = lease
        self._free_slot: Callable[[], None] | None = free_slot

    @property
    def last_beat(self) -> float | None:
        """The heartbeats' own."""
        return self._lease.last_beat

    async def end(self) -> None:
        """Join the heartbeats first: a late one could undo what follows."""
        await self._lease.end()
        free_slot, self._free_slot = self._free_slot, None
        if free_slot is not None:
            free_slot()
