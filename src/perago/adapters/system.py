"""The machine itself: its clock, its chance, its event loop and its service manager (systemd)."""

import asyncio
import os
import random
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar, final
from weakref import WeakValueDictionary

from perago.domain.attempt import ExecutionId
from perago.domain.names import CHANCE_BITS, execution_id_at
from perago.ports.system import Clock, Concurrency, Identities, nothing


@final
class SystemClock(Clock):
    """Wall time in UTC and the monotonic clock of this process."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        # The loop's timer may fire a clock tick early; a caller counts on the whole time.
        while (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 - only time ends it
            await asyncio.sleep(left)


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

# Most blocking work waits for a disk or for Spark. asyncio's own pool has 6 threads on 2 cores:
# attempts would wait for each other's directories there. 32 is the most that asyncio's own pool
# has, on a machine with 28 cores. A thread that waits costs little.
BLOCKING_THREADS_MAX = 32
# How long a cancelled caller waits for work that was told to stop, so that what it left can be
# removed. Longer delays the end of a drain by a slow line.
ABANDONED_SECONDS_MAX = 3.0


@final
class AsyncioConcurrency(Concurrency):
    """Tasks of the running loop; one instance per loop."""

    def __init__(self, *, threads_max: int = BLOCKING_THREADS_MAX) -> None:
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="perago-blocking")
        # A lock stays as long as a task holds it or waits for it.
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def together(self, first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
        one, two = asyncio.ensure_future(first), asyncio.ensure_future(second)
        await asyncio.gather(one, two, return_exceptions=True)
        return one.result(), two.result()

    async def together3(
        self, first: Awaitable[A], second: Awaitable[B], third: Awaitable[C]
    ) -> tuple[A, B, C]:
        one, two = asyncio.ensure_future(first), asyncio.ensure_future(second)
        three = asyncio.ensure_future(third)
        await asyncio.gather(one, two, three, return_exceptions=True)
        return one.result(), two.result(), three.result()

    async def each(
        self, items: Sequence[A], ask: Callable[[A], Awaitable[B]], *, at_most: int
    ) -> list[B]:
        answers: dict[int, B] = {}
        failures: list[BaseException] = []
        left = iter(enumerate(items))

        async def ask_until_a_failure() -> None:
            # All of these take from one iterator, so that one slow item holds up no other.
            for position, item in left:
                try:
                    answers[position] = await ask(item)
                except BaseException as failure:
                    failures.append(failure)
                    raise
                if failures:
                    return

        askers = [ask_until_a_failure() for _ in range(min(at_most, len(items)))]
        await asyncio.gather(*askers, return_exceptions=True)
        if failures:
            raise failures[0]
        return [answers[position] for position in range(len(items))]

    async def blocking(self, work: Callable[[], A], *, abandon: Callable[[], None] = nothing) -> A:
        answer = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            abandon()
            try:  # what it left can be removed once it has ended, so a moment's wait is worth it
                await asyncio.wait([answer], timeout=ABANDONED_SECONDS_MAX)
            finally:  # who cancels twice has no moment
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # its caller has gone, and asyncio would warn
            raise

    def close(self) -> None:
        """Let the threads go once their work is done."""
        self._threads.shutdown(wait=True)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncGenerator[None]:
        lock = self._turns.setdefault(name, asyncio.Lock())
        async with lock:
            yield


@final
class SystemIdentities(Identities):
    """Random identities that no other process makes."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def new_execution_id(self) -> ExecutionId:
        return execution_id_at(time.time_ns() // 1_000_000, self._random.getrandbits(CHANCE_BITS))

    def fraction(self) -> float:
        return self._random.random()


SOCKET_VARIABLE = "NOTIFY_SOCKET"


def notify_service(text: str) -> None:
    """Send one notice, such as `READY=1`. A lost one changes nothing for the worker."""
    address = os.environ.get(SOCKET_VARIABLE)
    if not address:
        return
    path = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.sendto(text.encode(), path)
