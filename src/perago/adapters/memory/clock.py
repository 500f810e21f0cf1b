"""A clock whose time moves only when somebody moves it, and wakes sleepers in their order.

Works under asyncio (a sleeper waits for a future) and under a scheduler that drives coroutines by
hand (a sleeper takes turns until it is woken). Must not know who sleeps, or why.
"""

import asyncio
import heapq
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import final

from perago.adapters.memory.worker_handle import Turn
from perago.ports.system import Clock

START = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS_PER_SECOND = 1_000_000
MICROSECONDS_PER_MILLISECOND = 1_000
QUIET_TURNS = 8  # turns in a row without a new sleeper: everybody woken has gone as far as it can
TURNS_MAX = 10_000


@dataclass(order=True, slots=True)
class _Sleeper:
    deadline: int
    order: int
    woken: bool = field(default=False, compare=False)
    future: asyncio.Future[None] | None = field(default=None, compare=False)


@final
class VirtualClock(Clock):
    """Time in whole microseconds; nothing passes by itself."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._start_ms = (start - EPOCH) // timedelta(milliseconds=1)
        self._elapsed = 0
        self._sleepers: list[_Sleeper] = []
        self._started_sleeps = 0

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed / MICROSECONDS_PER_SECOND

    @property
    def epoch_ms(self) -> int:
        """The wall time as servers write it: milliseconds since 1970."""
        return self._start_ms + self._elapsed // MICROSECONDS_PER_MILLISECOND

    async def sleep(self, seconds: float) -> None:
        self._started_sleeps += 1
        if seconds <= 0:
            await Turn()
            return
        sleeper = _Sleeper(self._elapsed + _microseconds(seconds), self._started_sleeps)
        heapq.heappush(self._sleepers, sleeper)
        try:
            await _until_woken(sleeper)
        finally:
            sleeper.woken = True  # a cancelled sleeper is passed over when its time comes

    def seconds_to_next(self) -> float | None:
        """How long until the first sleeper wakes; None when nobody sleeps."""
        self._forget_woken()
        if not self._sleepers:
            return None
        return (self._sleepers[0].deadline - self._elapsed) / MICROSECONDS_PER_SECOND

    def advance(self, seconds: float) -> None:
        """Move the time and wake who is due, in the order of the deadlines.

        The woken run when the caller gives way; `let_pass` lets each run at its own moment.
        """
        target = self._elapsed + _microseconds(seconds)
        while self._wake_next(target):
            pass
        self._elapsed = target

    async def let_pass(self, seconds: float) -> None:
        """Move the time from deadline to deadline and let the woken run at each."""
        target = self._elapsed + _microseconds(seconds)
        await self._settle()
        while self._wake_next(target):
            await self._settle()
        self._elapsed = target
        await self._settle()

    def _wake_next(self, target: int) -> bool:
        """Move to the first deadline up to `target` and wake whoever waits for it."""
        self._forget_woken()
        if not self._sleepers or self._sleepers[0].deadline > target:
            return False
        self._elapsed = self._sleepers[0].deadline
        while self._sleepers and self._sleepers[0].deadline == self._elapsed:
            sleeper = heapq.heappop(self._sleepers)
            if not sleeper.woken:
                _wake(sleeper)
        return True

    def _forget_woken(self) -> None:
        while self._sleepers and self._sleepers[0].woken:
            heapq.heappop(self._sleepers)

    async def _settle(self) -> None:
        quiet = 0
        for _ in range(TURNS_MAX):
            before = self._started_sleeps
            await Turn()
            quiet = quiet + 1 if before == self._started_sleeps else 0
            if quiet == QUIET_TURNS:
                return


async def _until_woken(sleeper: _Sleeper) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # driven by hand
        while not sleeper.woken:
            await Turn()
        return
    sleeper.future = loop.create_future()
    await sleeper.future


def _wake(sleeper: _Sleeper) -> None:
    sleeper.woken = True
    if sleeper.future is not None and not sleeper.future.done():
        sleeper.future.set_result(None)


def _microseconds(seconds: float) -> int:
    if seconds < 0:
        raise ValueError(f"time goes forward: expected 0 or more seconds, found {seconds}")
    return round(seconds * MICROSECONDS_PER_SECOND)
