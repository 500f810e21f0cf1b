"""Heartbeats of one attempt: one sender, each beat followed by a read, joined before the end.

A beat's answer hides a cancellation, the read after it reveals one; a lost attempt is told at
once, so that its body stops working for nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, final

from perago.domain.attempt_fence import FenceVerdict, Stale
from perago.ports.clock import Clock
from perago.ports.errors import WorldError
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
        self._ended = asyncio.Event()
        self._pausing = False
        self._sender: asyncio.Task[None] | None = None
        self._last_beat = clock.monotonic()

    @property
    def last_beat(self) -> float:
        """The beat that was answered last, or the poll."""
        return self._last_beat

    def start(self) -> Self:
        """Begin to beat; an attempt without a response time-out needs none."""
        if self._heartbeat.pause_seconds > 0:
            self._sender = asyncio.create_task(self._beat(), name="perago-heartbeat")
        return self

    async def end(self) -> None:
        """Stop the sender and wait for the beat under way: a late one could undo the end."""
        self._ended.set()
        sender, self._sender = self._sender, None
        if sender is None:
            return
        if self._pausing:  # nothing is under way, and nothing can follow
            sender.cancel()
            return
        await asyncio.shield(sender)

    async def _beat(self) -> None:
        pause = max(self._heartbeat.pause_seconds, PAUSE_SECONDS_MIN)
        while not self._ended.is_set():
            self._pausing = True
            await self._clock.sleep(pause)
            self._pausing = False
            sent = self._clock.monotonic()
            try:
                await self._heartbeat.send()
                self._last_beat = sent
                if self._ended.is_set():
                    return
                verdict = await self._heartbeat.look()
            except WorldError:
                continue  # the next beat may pass; the lease is three beats long
            if isinstance(verdict, Stale):
                self._heartbeat.lost(verdict)
                return
