"""The lease of an attempt in a worker: its end also frees the attempt's slot.

From then on only a terminal update is on its way, and the next attempt may be polled.
"""

import asyncio
from typing import final

from perago.app.worker.first_of import first_of
from perago.app.worker.slot_budget import SlotBudget
from perago.app.worker.stop_orders import Order
from perago.ports.lease import Lease


@final
class SlotLease(Lease):
    """Ends the heartbeats, then gives the slot back if the attempt has one at that moment.

    The attempt has one from the start, because its poll took it.
    """

    def __init__(self, lease: Lease, budget: SlotBudget) -> None:
        self._lease = lease
        self._budget = budget
        self._has_slot = True

    @property
    def last_beat(self) -> float | None:
        """The heartbeats' own."""
        return self._lease.last_beat

    def lend(self) -> None:
        """Let other attempts have the slot while this one waits for a service."""
        assert self._has_slot, "lent before"
        self._has_slot = False
        self._budget.give_back(1)

    async def take_back(self, order: Order) -> None:
        """Wait for a free slot; an attempt that is told to stop needs none."""
        taking = asyncio.ensure_future(self._budget.take(1))
        try:
            await first_of(taking, order)
        finally:
            if not taking.done():
                taking.cancel()
                await asyncio.wait([taking])
            self._has_slot = not taking.cancelled()

    async def end(self) -> None:
        """Join the heartbeats first: a late one could undo what follows."""
        try:
            await self._lease.end()
        finally:
            if self._has_slot:
                self._has_slot = False
                self._budget.give_back(1)
