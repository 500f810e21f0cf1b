"""Slots, signals and waiting, shared by all parts of a worker.

`SlotBudget` counts how many tasks may be polled: one for each slot that is ready and not taken; who
asks first is served first. `answered_signals` connects SIGTERM, SIGINT and SIGUSR1 to a worker.
`first_of` waits for the first of several futures and cancels none.
"""

import asyncio
import faulthandler
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, final


def never() -> bool:
    """The default of `take`: wait until there is a slot, whatever happens meanwhile."""
    return False


@final
class SlotBudget:
    """Counts what is taken against what is ready now."""

    def __init__(self, ready: Callable[[], int]) -> None:
        self._ready = ready
        self._taken = 0
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """Slots that are free; never below zero."""
        return max(self._ready() - self._taken, 0)

    @property
    def taken(self) -> int:
        """Slots that are taken."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Takers that wait for a slot."""
        return self._waiting

    def take_free(self, most: int) -> int:
        """Take up to `most` slots now; none while others wait, who would be overtaken."""
        if self._waiting:
            return 0
        taken = min(most, self.free)
        self._taken += taken
        return taken

    async def take(self, most: int, *, unless: Callable[[], bool] = never) -> int:
        """Wait for a free slot, then take up to `most` of them; none once `unless` holds.

        `unless` is asked again only after `changed` or `give_back`.
        """
        self._waiting += 1
        try:
            async with self._turn:
                while self.free == 0:
                    if unless():
                        return 0
                    self._changed.clear()
                    await self._changed.wait()
                taken = min(most, self.free)
                self._taken += taken
                return taken
        finally:
            self._waiting -= 1

    def give_back(self, count: int) -> None:
        """Let slots go."""
        assert 0 <= count <= self._taken, f"{count} of {self._taken} slots cannot be given back"
        self._taken -= count
        self._changed.set()

    def changed(self) -> None:
        """Look again: the number of ready slots, or the answer of an `unless`, may be another."""
        self._changed.set()


# SIGTERM from systemd and Kubernetes, SIGINT from a terminal: the first drains, the second aborts.
ENDING = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class SignalAnswers:
    """What is done about signals; `end` is told which signal came."""

    end: Callable[[signal.Signals], None]
    dump: Callable[[], None]


@contextmanager
def answered_signals(answers: SignalAnswers) -> Generator[None]:
    """Answer signals in the running loop, for the block."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, answers.end, number)
    loop.add_signal_handler(signal.SIGUSR1, _dump, answers)
    try:
        yield
    finally:
        for number in (*ENDING, signal.SIGUSR1):
            loop.remove_signal_handler(number)


def _dump(answers: SignalAnswers) -> None:
    """Stacks of every thread and task to standard error, then what the worker knows."""
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    for task in asyncio.all_tasks():
        task.print_stack(limit=4, file=sys.stderr)
    sys.stderr.flush()  # before what follows, which executors and the log write by other ways
    answers.dump()


Waited: TypeAlias = "asyncio.Future[Any]"


async def first_of(*futures: Waited, seconds_max: float | None = None) -> None:
    """Return when one of them is done, or the time is over; nothing is cancelled."""
    # Before a callback is added: it would run in a later turn of the loop only.
    if any(future.done() for future in futures):
        return
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    def wake(_: object) -> None:
        if not first.done():
            first.set_result(None)

    late = None if seconds_max is None else loop.call_later(seconds_max, wake, None)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await first
    finally:
        for future in futures:
            future.remove_done_callback(wake)
        if late is not None:
            late.cancel()
