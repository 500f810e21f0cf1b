"""Heartbeats of one attempt: one sender, each beat followed by a read, joined before the end.

A beat's answer hides a cancellation and a lost answer hides everything, so the read after it asks
what is true; a lost attempt is told at once, so that its body stops working for nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, final

from perago.domain.attempt_fence import FenceVerdict, Stale
from perago.ports.clock import Clock
from perago.ports.errors import UnavailableError, WorldError
from perago.ports.lease import Lease

PAUSE_SECONDS_MIN = 0.1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a lease does: send a beat, look whether the attempt still counts, tell when not."""

    send: Callable[[], Awaitable[None]]
    look: Callable[[], Awaitable[FenceVerdict]]
    lost: Callable[[Stale], None]
    pause_seconds: float


@final
class HeartbeatLease(Lease):
    """Keeps one attempt's lease until `end` is called."""

    def __init__(self, heartbeat: Heartbeat, clock: Clock) -> None:
        self._heartbeat = heartbeat
        self._clock = clock
        self._pause = max(heartbeat.pause_seconds, PAUSE_SECONDS_MIN)
        self._ended = False
        self._next: asyncio.TimerHandle | None = None
        self._sender: asyncio.Task[None] | None = None
        self._last_beat = clock.monotonic()

    @property
    def last_beat(self) -> float:
        """The beat that was answered last, or the poll."""
        return self._last_beat

    def start(self) -> Self:
        """Begin to beat; an attempt without a response time-out needs none."""
        if self._heartbeat.pause_seconds > 0:
            self._plan()
        return self

    async def end(self) -> None:
        """Plan no beat and wait for the one under way: a late one could undo the end."""
        self._ended = True
        if self._next is not None:
            self._next.cancel()
        sender, self._sender = self._sender, None
        if sender is not None:
            await asyncio.shield(sender)

    def _plan(self) -> None:
        """A timer costs next to nothing: most attempts are over before their first beat."""
        self._next = asyncio.get_running_loop().call_later(self._pause, self._begin)

    def _begin(self) -> None:
        self._sender = asyncio.create_task(self._beat(), name="perago-heartbeat")

    async def _beat(self) -> None:
        """One beat and one look; a look that gets no answer is made again after the next beat."""
        sent = self._clock.monotonic()
        try:
            await self._heartbeat.send()
            self._last_beat = sent
        except UnavailableError:
            self._plan_unless_ended()  # nothing was sent, and a look could not be sent either
            return
        except WorldError:
            # No look is as urgent as this one: a refused beat is how a restarted or a removed
            # workflow shows itself, because the server no longer knows the row.
            pass
        if self._ended:
            return
        try:
            verdict: FenceVerdict | None = await self._heartbeat.look()
        except WorldError:
            verdict = None
        if isinstance(verdict, Stale):
            self._heartbeat.lost(verdict)
        else:
            self._plan_unless_ended()

    def _plan_unless_ended(self) -> None:
        if not self._ended:
            self._plan()
