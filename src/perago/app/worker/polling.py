"""When a worker polls Conductor, for how many tasks, and when it waits instead.

`Poller` polls one task type for as many tasks as there are free slots. `ServiceGate` and `DiskGate`
forbid polling while lakeFS, Conductor or the disk cannot take an attempt; the pauses double. What
becomes of a polled task is decided in `attempts`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import final

from perago.app.telemetry.listeners import write
from perago.app.worker.bodies import SlotBudget, work_until
from perago.domain.attempt import AttemptRecord
from perago.ports.conductor import PollRequest
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.system import Clock

LOGGER = logging.getLogger("perago.worker")
# How long Conductor may keep a poll open (above 5000 it answers 400). It answers early only when
# the batch is full: asking for 3 with 2 waiting costs the whole time, so a poll that waits asks for
# 1. 1000: an idle task type costs one request a second, and a drain waits for that poll.
IDLE_WAIT_MS = 1000
# The open poll has a slot that another task type waits for, and that type may have tasks. Longer
# keeps them waiting. Shorter is more than ten polls a second for as long as slots are short; 100 ms
# is also what Conductor waits when a poll does not say.
SHARED_WAIT_MS = 100
# After a poll that brought tasks a batch is asked for, which is rarely full: this is paid each
# time. Longer leaves slots empty that are free already.
BUSY_WAIT_MS = 5
# If the answer to a poll is lost, its tasks wait until a worker finds them and hands them back,
# or until their response time-out. That is the price of a larger batch; a smaller one would be more
# polls for workers with many slots.
BATCH_MAX = 100
# How much longer than it was asked to a busy server may keep a poll open. Shorter misses rows that
# it hands out late: they wait for the next such look, or for their response time-out. Longer lets
# all rows of such a poll wait.
OPEN_POLL_SECONDS = 2.0
# Task functions that began together end together: one poll for all of them costs the server less.
# Longer would leave slots empty that are free already. It is less than half of BUSY_WAIT_MS, which
# such a poll may take anyway.
GATHER_SECONDS = 0.002
# For a server that does not wait although it was asked to: without pauses it would be polled in a
# loop. They double as in conductor-python, because such a server may have a task at the next
# moment.
EMPTY_PAUSE_FIRST_SECONDS = 0.001
EMPTY_PAUSE_SECONDS_MAX = 0.5
# The first is short, because one lost connection is no outage. A minute is the longest time that a
# worker goes on waiting after the service has come back.
FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 60.0
# A pause of a minute may end early, because another poller or an attempt found that the service
# works again. So its state is read each second.
LOOK_AGAIN_SECONDS = 1.0
DISK_PAUSE_SECONDS = 5.0  # attempts that end free their directories; asking the disk is one call
# Room for what attempts that run still write, and for the log. 2 % where that is less, so that a
# disk of 10 GB is not called full at 512 MiB. PERAGO_DISK_FREE_MIN replaces both.
DISK_BYTES_MIN = 512 * 1024**2
DISK_FRACTION_MIN = 0.02


class Circuit(Enum):
    """What is believed of a service.

    state        means                                          leaves it by
    CLOSED       it works                                       `failed`
    OPEN         an operation failed; leave it alone            an answer, when the pause is over
    HALF_OPEN    it answers a cheap question; try one operation `tried`, `failed`, `succeeded`
    TRIAL        that operation is under way                    `failed`, `succeeded`,
                                                                `undecided`, an answer
    """

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"
    TRIAL = "trial"


@final
class ServiceGate:
    """One service: its circuit, which failed operations open, and the question how it does.

    Only an operation that succeeds closes the circuit. An answer to the question does not, because
    the common outage is one where the server answers and its store is down: the pauses then began
    again with the shortest one at every turn, and a worker polled and burnt attempts twice a second
    for as long as it lasted.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[], Awaitable[object]],
        *,
        now: Callable[[], float],
        fraction: Callable[[], float],
    ) -> None:
        self.name = name
        self.state = Circuit.CLOSED
        self.last_error = ""
        self._ask = ask
        self._now = now
        self._fraction = fraction
        self._failures = 0
        self._until = 0.0

    @property
    def closed(self) -> bool:
        """Whether the service is believed to work."""
        return self.state is Circuit.CLOSED

    @property
    def one_at_a_time(self) -> bool:
        """Whether the service answers questions, but has completed no operation since it failed."""
        return self.state is Circuit.HALF_OPEN

    @property
    def seconds_left(self) -> float:
        """How long the service, or the outcome of a trial, is to be waited for."""
        return max(self._until - self._now(), 0.0)

    async def pause(self) -> float:
        """Seconds to wait before polling; 0 when the service works, or may be tried."""
        if self.closed or self.one_at_a_time:
            return 0.0
        return await self._wait_or_look()

    async def outage(self) -> float:
        """Seconds to wait with an attempt that is polled already; a trial waits for none."""
        if self.state is not Circuit.OPEN:
            return 0.0
        return await self._wait_or_look()

    async def _wait_or_look(self) -> float:
        left = min(self.seconds_left, LOOK_AGAIN_SECONDS)
        return left if left > 0 else await self.look()

    async def look(self) -> float:
        """Ask now; 0 when the service answers, else the pause that its failure costs."""
        try:
            await self._ask()
        except (UnavailableError, OutcomeUnknownError) as error:
            return self.failed(str(error))
        except ServiceError:
            pass  # a refusal is an answer: the service is there
        if not self.closed:
            self._open_half()
        return 0.0

    def failed(self, error: str) -> float:
        """Count one failure; those of operations that began before the pause count once."""
        self.last_error = error
        if self.state is Circuit.OPEN and self.seconds_left > 0:
            return self.seconds_left
        self._failures += 1
        self.state = Circuit.OPEN
        return self._begin_pause()

    def tried(self) -> None:
        """An operation began; others wait for its outcome, but not longer than a pause."""
        if self.one_at_a_time:
            self.state = Circuit.TRIAL
            self._begin_pause()

    def undecided(self) -> None:
        """The operation ended before it could tell: the next one is the trial."""
        if self.state is Circuit.TRIAL:
            self._open_half()

    def succeeded(self) -> None:
        """An operation succeeded."""
        self.state = Circuit.CLOSED
        self._failures = 0
        self._until = 0.0

    def _open_half(self) -> None:
        self.state = Circuit.HALF_OPEN
        self._until = 0.0

    def _begin_pause(self) -> float:
        longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (self._failures - 1), PAUSE_SECONDS_MAX)
        # Between half and all of it: workers that failed together must not come back together.
        pause = longest * (1 + self._fraction()) / 2
        self._until = self._now() + pause
        return pause


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """A disk as the operating system tells it."""

    total: int
    free: int
    wanted: int | None = None

    @property
    def free_min(self) -> float:
        """How much another workspace may need."""
        if self.wanted is not None:
            return self.wanted
        return min(DISK_BYTES_MIN, self.total * DISK_FRACTION_MIN)

    @property
    def is_nearly_full(self) -> bool:
        """Whether less is free than that."""
        return self.free < self.free_min


@final
class DiskGate:
    """The disk below the workspaces."""

    def __init__(self, space: Callable[[], DiskSpace], warn: Callable[[DiskSpace], None]) -> None:
        self._space = space
        self._warn = warn
        self._warned = False

    def pause(self) -> float:
        """Seconds to wait before polling; 0 when there is room."""
        space = self._space()
        if not space.is_nearly_full:
            self._warned = False
            return 0.0
        if not self._warned:
            self._warn(space)
            self._warned = True
        return DISK_PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class PolledType:
    """A task type, its domain, and what must work before it is polled."""

    name: str
    domain: str | None = None
    services: Sequence[ServiceGate] = ()
    disk: DiskGate | None = None


@dataclass(frozen=True, slots=True)
class PollTools:
    """What every poller of a worker shares; `unheard` looks for rows that a lost answer had."""

    poll: Callable[[PollRequest], Awaitable[tuple[AttemptRecord, ...]]]
    clock: Clock
    budget: SlotBudget
    conductor: ServiceGate
    worker_id: str
    draining: asyncio.Event
    take: Callable[[AttemptRecord], None]
    unheard: Callable[[str], Awaitable[bool]]


@final
class Poller:
    """Polls one task type until the worker drains."""

    def __init__(self, polled: PolledType, tools: PollTools) -> None:
        self._type = polled
        self._tools = tools
        self._busy = False
        self._empty_pause = 0.0
        self._open_until: float | None = None

    async def run(self) -> None:
        """Poll, hand over, poll again."""
        tools = self._tools
        drained = asyncio.ensure_future(tools.draining.wait())
        try:
            while not tools.draining.is_set():
                closed = await self._closed_gates()
                if closed > 0:
                    await work_until(tools.clock.sleep(closed), drained)
                    continue
                if self._empty_pause > 0:
                    await work_until(tools.clock.sleep(self._empty_pause), drained)
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
            records = await tools.poll(request)
        except ServiceError as error:
            was_closed = tools.conductor.closed
            pause = tools.conductor.failed(str(error))
            if was_closed:
                facts = {"error": str(error), "pause_seconds": round(pause, 3)}
                write(LOGGER, logging.WARNING, f"circuit open: {tools.conductor.name}", facts)
            self._busy = False
            if isinstance(error, OutcomeUnknownError):
                # The server may go on with this poll, and hand rows out to a worker that is gone.
                self._open_until = asked + wait_ms / 1000 + OPEN_POLL_SECONDS
            return 0
        if not tools.conductor.closed:
            write(LOGGER, logging.INFO, f"circuit closed: {tools.conductor.name}", {})
        tools.conductor.succeeded()
        for record in records:
            tools.take(record)
        if records:
            for service in self._type.services:
                service.tried()
        self._note(bool(records), tools.clock.monotonic() - asked, wait_ms / 1000)
        await self._look_for_unheard()
        return len(records)

    async def _look_for_unheard(self) -> None:
        """Look for rows of a poll without an answer, when that poll is surely over.

        A poll of this type must not be under way, because its rows would look the same. It is done
        after a poll that was answered, because a Conductor that is away cannot be asked.
        """
        until = self._open_until
        if until is None or self._tools.clock.monotonic() < until:
            return
        if await self._tools.unheard(self._type.name):
            self._open_until = None

    def _note(self, found: bool, took: float, wait: float) -> None:  # noqa: FBT001
        """Back off after empty answers that came before the wait that was asked for.

        A server that does not wait answers at once, so half of the wait shows that this one did. A
        busy poll asks for a wait that is too short to tell.
        """
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
        for service in self._type.services:
            pause = await service.pause()
            if pause > 0:
                return pause
        return 0.0 if self._type.disk is None else self._type.disk.pause()

    async def _take_slots(self) -> int:
        """Slots for one poll, or none when the worker drains first."""
        budget, draining = self._tools.budget, self._tools.draining
        if draining.is_set():
            return 0
        # A service that has just failed is tried with one attempt: a batch would be lost with it.
        careful = any(each.one_at_a_time for each in self._type.services)
        wanted = BATCH_MAX if self._busy and not careful else 1
        taken = budget.take_free(wanted) or await budget.take(wanted, unless=draining.is_set)
        # Only where others have slots too: without them none becomes free in this moment.
        if self._busy and not careful and 0 < taken < min(budget.taken, wanted):
            await self._tools.clock.sleep(GATHER_SECONDS)
            taken += budget.take_free(wanted - taken)
        # The drain may have begun while this waited for a slot. Tasks that are polled now would
        # only make it longer.
        if draining.is_set():
            budget.give_back(taken)
            return 0
        return taken
