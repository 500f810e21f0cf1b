"""Asking Conductor for attempts of one task type, as many as there are free slots.

Decides how many to ask for, how long to let the server wait, and when not to ask. What happens to
an attempt that was polled is not known here. Polls are never cut short: a batch whose answer
nobody reads is lost until its response time-out.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final

from perago.app.telemetry.listeners import write
from perago.app.worker.circuit_breaker import CircuitBreaker
from perago.app.worker.first_of import first_of
from perago.app.worker.slot_budget import SlotBudget
from perago.domain.attempt import AttemptRecord
from perago.ports.clock import Clock
from perago.ports.errors import WorldError
from perago.ports.task_queue import PollRequest

LOGGER = logging.getLogger("perago.worker")
# The server answers early only when the batch is full, so a waiting poll asks for one.
IDLE_WAIT_MS = 1000
SHARED_WAIT_MS = 100
BUSY_WAIT_MS = 5
BATCH_MAX = 100
# Bodies that began together end together: one poll for all of them costs the server less.
GATHER_SECONDS = 0.002
EMPTY_PAUSE_FIRST_SECONDS = 0.001
EMPTY_PAUSE_SECONDS_MAX = 0.5


Drained: TypeAlias = "asyncio.Future[Literal[True]]"


class Polls(Protocol):
    """The one question a poller asks; every task queue answers it."""

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """Take up to `count` scheduled tasks."""
        ...


class Gate(Protocol):
    """Something that may forbid polling for a while."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether a poll may ask for one attempt only."""
        ...

    async def pause(self) -> float:
        """Seconds to wait; 0 to go on."""
        ...

    def tried(self) -> None:
        """Something was polled."""
        ...


@dataclass(frozen=True, slots=True)
class PolledType:
    """A task type, its domain, and what must hold before it is polled."""

    name: str
    domain: str | None
    gates: Sequence[Gate]


@dataclass(frozen=True, slots=True)
class PollTools:
    """What every poller of a worker shares."""

    queue: Polls
    clock: Clock
    budget: SlotBudget
    breaker: CircuitBreaker
    worker_id: str
    draining: asyncio.Event
    take: Callable[[AttemptRecord], None]


@final
class Poller:
    """Polls one task type until the worker drains."""

    def __init__(self, polled: PolledType, tools: PollTools) -> None:
        self._type = polled
        self._tools = tools
        self._busy = False
        self._empty_pause = 0.0

    async def run(self) -> None:
        """Poll, hand over, poll again."""
        tools = self._tools
        drained = asyncio.ensure_future(tools.draining.wait())
        try:
            while not tools.draining.is_set():
                closed = await self._closed_gates()
                if closed > 0:
                    await self._wait(closed, drained)
                    continue
                if self._empty_pause > 0:
                    await self._wait(self._empty_pause, drained)
                taken = await self._take_slots()
                if taken:
                    left = taken - await self._poll(taken)
                    if left:
                        tools.budget.give_back(left)
        finally:
            drained.cancel()

    async def _poll(self, count: int) -> int:
        """Ask once; how many attempts were handed over."""
        tools = self._tools
        wait_ms = self._wait_ms()
        request = PollRequest(
            self._type.name, tools.worker_id, count, domain=self._type.domain, wait_ms=wait_ms
        )
        asked = tools.clock.monotonic()
        try:
            records = await tools.queue.poll(request)
        except WorldError as error:
            was_closed = tools.breaker.closed
            pause = tools.breaker.failed(str(error))
            if was_closed:
                facts = {"error": str(error), "pause_seconds": round(pause, 3)}
                write(LOGGER, logging.WARNING, f"circuit open: {tools.breaker.name}", facts)
            self._busy = False
            return 0
        if not tools.breaker.closed:
            write(LOGGER, logging.INFO, f"circuit closed: {tools.breaker.name}", {})
        tools.breaker.succeeded()
        for record in records:
            tools.take(record)
        if records:
            for gate in self._type.gates:
                gate.tried()
        self._note(bool(records), tools.clock.monotonic() - asked, wait_ms / 1000)
        return len(records)

    def _note(self, found: bool, took: float, wait: float) -> None:  # noqa: FBT001
        """Back off after empty answers that came before the wait that was asked for."""
        was_busy, self._busy = self._busy, found
        if found or was_busy or took >= wait / 2:
            self._empty_pause = 0.0
        else:
            longer = max(self._empty_pause * 2, EMPTY_PAUSE_FIRST_SECONDS)
            self._empty_pause = min(longer, EMPTY_PAUSE_SECONDS_MAX)

    def _wait_ms(self) -> int:
        if self._busy:
            return BUSY_WAIT_MS
        return SHARED_WAIT_MS if self._tools.budget.waiting else IDLE_WAIT_MS

    async def _closed_gates(self) -> float:
        for gate in self._type.gates:
            pause = await gate.pause()
            if pause > 0:
                return pause
        return 0.0

    async def _take_slots(self) -> int:
        """Slots for one poll, or none when the worker drains first."""
        budget, draining = self._tools.budget, self._tools.draining
        if draining.is_set():
            return 0
        # A service that has just failed is tried with one attempt: a batch would be lost with it.
        careful = any(gate.one_at_a_time for gate in self._type.gates)
        wanted = BATCH_MAX if self._busy and not careful else 1
        taken = budget.take_free(wanted) or await budget.take(wanted, unless=draining.is_set)
        if self._busy and not careful and 0 < taken < min(budget.taken, wanted):
            await self._tools.clock.sleep(GATHER_SECONDS)
            taken += budget.take_free(wanted - taken)
        if draining.is_set():
            budget.give_back(taken)
            return 0
        return taken

    async def _wait(self, seconds: float, drained: Drained) -> None:
        """Let time pass, but not longer than until the drain."""
        over = asyncio.ensure_future(self._tools.clock.sleep(seconds))
        await first_of(over, drained)
        over.cancel()
