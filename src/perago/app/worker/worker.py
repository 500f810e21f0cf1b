"""A worker from its start to its end: it makes executors ready, polls, and drains on a signal.

`WorkerParts` says how patient each step is, `Worker` runs the steps.
"""

import asyncio
import faulthandler
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Container, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, final

from perago.app.telemetry.listeners import facts_of, write
from perago.app.worker.attempts import AttemptParts, Attempts
from perago.app.worker.bodies import SlotBudget, first_of
from perago.app.worker.polling import Circuit, PolledType, Poller, PollTools, ServiceGate
from perago.domain.attempt import PublishTimes
from perago.domain.hand_back import Cause

LOGGER = logging.getLogger("perago.worker")
DRAINING = "worker draining"
ABORTED = "worker aborted: it was told to stop a second time"
# A loop that stands still for 15 s sends no heartbeats either. Fewer, and a busy machine or one
# that was suspended for a moment has a healthy worker killed, with all its attempts.
BEAT_SECONDS = 1.0
BEATS_MISSED_MAX = 15
# A request that was swallowed would hold up the end of a start for as long as its client waits.
GIVEN_UP_SECONDS = 1.0
# SIGTERM from systemd and Kubernetes, SIGINT from a terminal: the first drains, the second aborts.
ENDING = (signal.SIGTERM, signal.SIGINT)
# From the order to stop until the last executor is gone: INTERRUPT_SECONDS_MAX (2 s), the kill, and
# time for a busy machine. Deployments need it in their grace period (tests/unit/test_deploy.py).
KILL_SECONDS = 5.0

Job: TypeAlias = Callable[[], Coroutine[object, object, None]]
Unheard: TypeAlias = Callable[[str, Container[tuple[str, int]]], Awaitable[bool]]


async def nothing_unheard(task_type: str, taken: Container[tuple[str, int]]) -> bool:
    """The default of `unheard`: rows whose poll was not answered wait for their time-out."""
    del task_type, taken
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts(AttemptParts):
    """Everything outside, and how long to be patient."""

    conductor_gate: ServiceGate
    before_polling: Sequence[Job] = ()
    periodic: Sequence[Job] = ()
    force_kill_seconds: float | None = None
    unheard: Unheard = nothing_unheard
    started: Callable[[], None] = lambda: None
    beat: Callable[[], None] = lambda: None

    @property
    def grace_seconds(self) -> float:
        """How long bodies may go on once the worker drains."""
        if self.force_kill_seconds is not None:
            return self.force_kill_seconds
        return max(each.shutdown_grace_seconds for each in self._times)

    @property
    def settle_seconds(self) -> float:
        """How long an attempt may take to its end once its body is gone."""
        return KILL_SECONDS + max(
            each.merge_timeout_seconds + each.completion_timeout_seconds for each in self._times
        )

    @property
    def termination_seconds(self) -> int:
        """What `terminationGracePeriodSeconds` has to be at least."""
        return int(self.grace_seconds + self.settle_seconds) + 1

    @property
    def _times(self) -> list[PublishTimes]:
        return [task.times for task in self.tasks.values()] or [PublishTimes()]


def drain_reason(grace_seconds: float) -> str:
    """What the row of a task function says that did not end within the grace."""
    return (
        f"{DRAINING}: the worker was told to stop, as a deploy does, and the grace of"
        f" {grace_seconds:g} s is over; raise PERAGO_SHUTDOWN_FORCE_KILL_AFTER for task functions"
        " that take longer"
    )


class WorkerPhase(StrEnum):
    """Where a worker is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    ENDED = "ended"


class WorkerEnd(StrEnum):
    """How a worker ended."""

    DRAINED = "drained"
    ABORTED = "aborted"
    BROKEN = "broken"


@final
class Worker:
    """One parent: `run` returns when it has ended."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self.phase = WorkerPhase.STARTING
        self.has_started = False
        """Whether it came as far as polling: all that a start has to do is done."""
        self._draining = asyncio.Event()
        self._aborting = asyncio.Event()
        self._broken: BaseException | None = None
        self.exit_signal: signal.Signals | None = None
        """The signal that asked for the end."""
        self._beat_at = parts.ports.clock.monotonic()
        self.budget = SlotBudget(lambda: parts.bodies.ready)
        parts.bodies.on_change(self.budget.changed)
        self.attempts = Attempts(parts, self.budget, self._draining, self._watch)

    @property
    def is_live(self) -> bool:
        """Whether the loop still turns."""
        missed = (self._parts.ports.clock.monotonic() - self._beat_at) / BEAT_SECONDS
        return missed < BEATS_MISSED_MAX and self._broken is None

    @property
    def is_ready(self) -> bool:
        """Whether new attempts are taken: running, executors live, services answer."""
        parts = self._parts
        gates = (parts.conductor_gate, parts.lakefs_gate)
        answering = all(gate is None or gate.state is not Circuit.OPEN for gate in gates)
        return self.phase is WorkerPhase.RUNNING and parts.bodies.ready > 0 and answering

    def drain(self) -> None:
        """Poll no more, and let what runs come to its end within the grace."""
        self._draining.set()
        self.budget.changed()  # pollers wait for slots that they no longer want

    async def run(self) -> WorkerEnd:
        """Run from the start of the first executor to the end of the last."""
        parts = self._parts
        with _answered_signals(self._signalled, self._dump):
            try:
                if await self._make_ready():
                    return await self._work()
                return WorkerEnd.DRAINED
            finally:
                self.phase = WorkerPhase.ENDED
                await parts.bodies.close()

    async def _make_ready(self) -> bool:
        """Start executors while the services are checked; False when a signal came first.

        Side by side, because executors import task modules, which may take tens of seconds. What
        fails first ends the start: the other one may wait for a service.
        """
        starting = asyncio.create_task(self._parts.bodies.start())
        asking = asyncio.create_task(self._ask())
        beating = asyncio.create_task(self._beat())
        draining = asyncio.ensure_future(self._draining.wait())
        first_error = asyncio.FIRST_EXCEPTION
        ready = asyncio.ensure_future(asyncio.wait({starting, asking}, return_when=first_error))
        await first_of(ready, draining)
        stopped = not ready.done()
        for task in (beating, draining, ready, starting, asking):
            task.cancel()
        await asyncio.wait({starting})
        await asyncio.wait({asking}, timeout=GIVEN_UP_SECONDS)
        if stopped:
            write(LOGGER, logging.INFO, "worker stopped before it was ready", {})
            return False
        for task in (asking, starting):
            if task.done() and not task.cancelled():
                task.result()  # raises what failed
        return True

    async def _ask(self) -> None:
        for look in self._parts.before_polling:
            await look()

    async def _work(self) -> WorkerEnd:
        self.phase = WorkerPhase.RUNNING
        self.has_started = True
        write(LOGGER, logging.INFO, "worker started", self._started_facts())
        self._parts.started()  # READY=1 to systemd, now that executors and services are there
        pollers = [asyncio.create_task(self._poller(each).run()) for each in self._parts.types]
        aside = [asyncio.create_task(self._beat())]
        aside += [asyncio.create_task(each()) for each in self._parts.periodic]
        for task in (*pollers, *aside):
            task.add_done_callback(self._watch)
        await self._draining.wait()
        end = await self._drain(pollers)
        for task in aside:
            task.cancel()
        await asyncio.wait(aside)  # a cancelled job ends at its next turn, and may hold a request
        write(LOGGER, logging.INFO, f"worker {end}", {"worker_id": self._parts.settings.worker_id})
        return end

    def _poller(self, polled: PolledType) -> Poller:
        parts = self._parts
        tools = PollTools(
            poll=parts.ports.queue.poll,
            clock=parts.ports.clock,
            budget=self.budget,
            conductor=parts.conductor_gate,
            worker_id=parts.settings.worker_id,
            draining=self._draining,
            take=self.attempts.begin,
            unheard=lambda name: parts.unheard(name, self.attempts.taken),
        )
        return Poller(polled, tools)

    async def _drain(self, pollers: Sequence["asyncio.Task[None]"]) -> WorkerEnd:
        """Finish within the grace, abandon what is left, settle what was decided."""
        self.phase = WorkerPhase.DRAINING
        parts = self._parts
        running = [facts_of(each) for each in self.attempts.running]
        facts = {"grace_seconds": parts.grace_seconds, "running": running}
        write(LOGGER, logging.INFO, "worker draining", facts)
        aborting = asyncio.ensure_future(self._aborting.wait())
        ending = asyncio.ensure_future(self._end_attempts(pollers))
        await first_of(ending, aborting, seconds_max=parts.grace_seconds)
        if not ending.done():
            # Only task functions are ended. Heartbeats go on, and an attempt that is past its
            # function publishes: cut off there, its outcome would be unknown.
            parts.bodies.orders.stop_all(drain_reason(parts.grace_seconds), cause=Cause.DRAIN)
            await first_of(ending, aborting, seconds_max=parts.settle_seconds)
        for task in (ending, aborting):
            task.cancel()
        if self._broken is not None:
            return WorkerEnd.BROKEN
        return WorkerEnd.DRAINED if ending.done() and not ending.cancelled() else WorkerEnd.ABORTED

    async def _end_attempts(self, pollers: Sequence["asyncio.Task[None]"]) -> None:
        await asyncio.wait(pollers)  # what their last polls bring is run as well
        await self.attempts.all_ended()

    async def _beat(self) -> None:
        while True:
            self._beat_at = self._parts.ports.clock.monotonic()
            if self.has_started:
                self._parts.beat()
            await asyncio.sleep(BEAT_SECONDS)

    def _signalled(self, number: signal.Signals) -> None:
        write(LOGGER, logging.INFO, f"worker got {number.name}", {})
        self.exit_signal = number
        if self._draining.is_set():
            self._aborting.set()
            self._parts.bodies.orders.stop_all(ABORTED, cause=Cause.DRAIN)
        self.drain()

    def _dump(self) -> None:
        """Stacks of every thread and task to standard error, then what the worker knows."""
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        for task in asyncio.all_tasks():
            task.print_stack(limit=4, file=sys.stderr)
        sys.stderr.flush()  # before what follows, which executors and the log write by other ways
        self._parts.bodies.dump_stacks()
        slots = [
            {"slot": each.slot, "pid": each.pid, "execution_id": each.execution_id}
            for each in self._parts.bodies.facts()
        ]
        running = [facts_of(each) for each in self.attempts.running]
        facts = {"slots": slots, "running": running, "phase": str(self.phase)}
        write(LOGGER, logging.WARNING, "worker state", facts)

    def _watch(self, task: "asyncio.Task[None]") -> None:
        """A part that ends with an error has broken the worker."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            LOGGER.critical("worker broken", exc_info=error)
            self.drain()

    def _started_facts(self) -> dict[str, object]:
        parts = self._parts
        return {
            "worker_id": parts.settings.worker_id,
            "tasks": [each.name for each in parts.types],
            "slots": parts.bodies.ready,
            "grace_seconds": parts.grace_seconds,
            "termination_grace_period_seconds": parts.termination_seconds,
        }


@contextmanager
def _answered_signals(
    end: Callable[[signal.Signals], None], dump: Callable[[], None]
) -> Generator[None]:
    """Answer signals in the running loop, for the block."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGUSR1, dump)
    try:
        yield
    finally:
        for number in (*ENDING, signal.SIGUSR1):
            loop.remove_signal_handler(number)
