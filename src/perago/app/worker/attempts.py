"""Every attempt of a worker that is under way: its heartbeats, its slot, its wait for lakeFS.

`HeartbeatLease` keeps the lease. It reads the row after each beat, because Conductor answers 200 to
a beat of an attempt that was cancelled; a lost attempt stops its body at once. `SlotLease` gives
the slot back after the last beat. `Attempts` starts what a poller brings, waits for it at a drain,
and opens and closes the circuit of lakeFS by what attempts find.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self, final

from perago.app.attempt.complete import read_verdict
from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.patience import LAKEFS, Wait
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import AttemptEvents, AttemptListener, WaitLines, write
from perago.app.worker.bodies import Bodies, Order, SlotBudget, WaitingOrder, first_of
from perago.app.worker.polling import Circuit, PolledType, ServiceGate
from perago.domain.attempt import AttemptRecord, FenceVerdict, Stale
from perago.domain.commit_metadata import traceparent_of
from perago.domain.errors import BodyFailedError, GuardrailViolation
from perago.domain.hand_back import Cause
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.system import Clock
from perago.ports.task_body import Lease
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.worker")
# Conductor takes no response time-out below 1 s, so a third of it is longer than this. Without a
# lowest pause a wrong number in a row would make the heartbeats one uninterrupted loop of requests.
PAUSE_SECONDS_MIN = 0.1
# After a beat without an answer the next one follows soon, so that a Conductor that comes back gets
# it at once: by then most of the lease may be gone. Chance spreads the attempts of all workers.
# The least lease that `perago doctor` calls enough is 45 s, of which 15 s are left after a beat
# that was waited for in vain: 4 s leave room for another. Shorter asks an absent Conductor more.
AGAIN_SECONDS_MAX = 4.0
# Both are raised after lakeFS has given the attempt its workspace, so lakeFS works: an attempt that
# ends with one of them closes the circuit, as a success does.
SERVED = (BodyFailedError, GuardrailViolation)
# The end of an attempt may be on its way to Conductor when its rows are looked through. The worker
# remembers the attempts that it began, so that it does not hand such a row back. After 1,000 more
# attempts the end has arrived or is lost. Without a limit the memory of a worker would grow.
TAKEN_MAX = 1000
# A drained worker waits this long for its last lines in Conductor's task logs. Without a limit a
# Conductor that does not answer would hold the process; lines that are lost are in the worker's
# log. A line is one request, so 10 s are far above what a Conductor that works needs.
TASK_LOG_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The three calls of a lease: send a beat, read whether the attempt counts, report a loss."""

    send: Callable[[], Awaitable[None]]
    look: Callable[[], Awaitable[FenceVerdict]]
    lost: Callable[[Stale], None]
    pause_seconds: float
    fraction: Callable[[], float]


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

    def _plan(self, *, again: bool = False) -> None:
        """Start a timer and no task, because most attempts end before their first beat."""
        if self._ended:
            return
        pause = self._pause
        if again:
            soon = AGAIN_SECONDS_MAX * self._heartbeat.fraction()
            pause = min(pause, max(soon, PAUSE_SECONDS_MIN))
        self._next = asyncio.get_running_loop().call_later(pause, self._begin)

    def _begin(self) -> None:
        self._sender = asyncio.create_task(self._beat(), name="perago-heartbeat")

    async def _beat(self) -> None:
        """One beat and one look; a look that gets no answer is made again after the next beat."""
        sent, failed = self._clock.monotonic(), False
        try:
            await self._heartbeat.send()
            self._last_beat = sent
        except UnavailableError:
            # Nothing was sent, so a read would not be sent either.
            self._plan(again=True)
            return
        except ServiceError:
            # Read now, although the beat failed: Conductor refuses a beat when it no longer knows
            # the row, so this is how a restarted or removed workflow shows.
            failed = True
        if self._ended:
            return
        # After a lost beat the next one must not wait for a read that may be lost, too.
        limit = min(self._pause, AGAIN_SECONDS_MAX) if failed else None
        verdict: FenceVerdict | None = None
        with suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(limit):
                verdict = await self._heartbeat.look()
        if isinstance(verdict, Stale):
            self._heartbeat.lost(verdict)
        else:
            self._plan(again=failed)


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
            # Both may come at one moment. A slot that was given is kept, so that `end` returns it.
            self._has_slot = not taking.cancelled()

    async def end(self) -> None:
        """Join the heartbeats first: a late one could undo what follows."""
        try:
            await self._lease.end()
        finally:
            if self._has_slot:
                self._has_slot = False
                self._budget.give_back(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptParts:
    """What attempts of a worker share."""

    ports: AttemptPorts
    bodies: Bodies
    tasks: Mapping[str, TaskDefinition]
    types: Sequence[PolledType]
    settings: AttemptSettings
    listeners: Sequence[AttemptListener]
    lakefs_gate: ServiceGate | None = None


@final
class Attempts:
    """Everything that is under way; `watch` is called with each attempt that has ended."""

    def __init__(
        self,
        parts: AttemptParts,
        budget: SlotBudget,
        draining: asyncio.Event,
        watch: Callable[["asyncio.Task[None]"], None],
    ) -> None:
        self._parts = parts
        self._budget = budget
        self._draining = draining
        self._watch = watch
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._taken: deque[tuple[str, int]] = deque(maxlen=TAKEN_MAX)

    @property
    def taken(self) -> Container[tuple[str, int]]:
        """Task id and poll count of what was begun, as far back as a row may still look lost."""
        return {*self._taken, *((x.row.task_id, x.row.poll_count) for x in self.running)}

    @property
    def running(self) -> list[Attempt]:
        """Attempts that have not ended."""
        return list(self._running.values())

    def begin(self, record: AttemptRecord) -> None:
        """Start one polled attempt; its slot is taken already."""
        parts = self._parts
        self._taken.append((record.snapshot.task_id, record.snapshot.poll_count))
        attempt = Attempt(
            ports=parts.ports,
            task=parts.tasks[record.snapshot.task_type],
            record=record,
            execution_id=parts.ports.identities.new_execution_id(),
            settings=parts.settings,
            traceparent=traceparent_of(record.input_data),
        )
        task = asyncio.create_task(self._run(attempt), name=f"attempt-{attempt.execution_id}")
        self._running[task] = attempt
        task.add_done_callback(self._running.pop)
        task.add_done_callback(self._watch)

    async def all_ended(self) -> None:
        """Wait for all of them, and for the last lines of their logs in Conductor."""
        if self._running:
            await asyncio.wait(self._running)
        if self._aside:  # only now, because attempts write lines until they end
            await asyncio.wait(self._aside, timeout=TASK_LOG_SECONDS_MAX)

    async def _run(self, attempt: Attempt) -> None:
        parts, clock = self._parts, self._parts.ports.clock
        polled_at = clock.monotonic()
        # Begun before the heartbeats, because it counts their requests as well.
        lines = WaitLines(lambda line: self._log_aside(attempt, events, line))
        events = AttemptEvents(attempt, [*parts.listeners, lines], clock)
        lease = HeartbeatLease(self._heartbeat(attempt, events), clock).start()
        slot = SlotLease(lease, self._budget)
        try:
            with parts.bodies.orders.for_execution(attempt.execution_id) as order:
                ports = replace(parts.ports, progress=events, stop_order=WaitingOrder(order))
                await self._wait_for_lakefs(attempt, slot, order, events)
                report = await run_attempt(
                    replace(attempt, ports=ports),
                    slot,
                    polled_at=polled_at,
                    failed=lambda error: self._open_circuit(attempt, error),
                )
        finally:
            await slot.end()
        # An attempt that was told to stop may have asked lakeFS for nothing.
        served = report.error is None or isinstance(report.error, SERVED)
        self._close_circuit(attempt, served=served and not order.done())
        if events.task_log_line:
            self._log_aside(attempt, events, events.task_log_line)

    def _heartbeat(self, attempt: Attempt, events: AttemptEvents) -> Heartbeat:
        parts, row = self._parts, attempt.row

        def lost(stale: Stale) -> None:
            found = {"field": stale.field, "expected": stale.expected, "found": stale.found}
            events.phase(Phase.LOST, found)
            why = f"the attempt is lost: {stale}"
            parts.bodies.orders.stop(attempt.execution_id, why, cause=Cause.STALE)

        return Heartbeat(
            send=lambda: parts.ports.queue.extend_lease(row, parts.settings.worker_id),
            look=lambda: read_verdict(attempt),
            lost=lost,
            pause_seconds=attempt.task.times.heartbeat_seconds(
                attempt.record.response_timeout_seconds
            ),
            fraction=parts.ports.identities.fraction,
        )

    async def _wait_for_lakefs(
        self, attempt: Attempt, slot: SlotLease, order: Order, progress: Progress
    ) -> None:
        """Wait, with heartbeats, for a service that failed while this attempt was polled.

        Its slot is for tasks that need no such service meanwhile. A row that another host could
        serve is not kept longer than an attempt waits for anything: then it is handed back.
        """
        gate, parts = self._gate_of(attempt), self._parts
        if gate is None or await gate.outage() <= 0:
            return
        slot.lend()
        began, now = parts.ports.clock.monotonic(), parts.ports.clock.monotonic
        # Without patience nothing says how long is too long, and a failure would spend a retry.
        seconds_max = parts.settings.patience_seconds or float("inf")
        wait = Wait(LAKEFS, "the begin of the attempt", began, failures=1)
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            while (pause := await gate.outage()) > 0 and not (draining.done() or order.done()):
                wait.report(progress, now(), gate.last_error)
                if now() - began >= seconds_max:
                    reason = f"PERAGO_PATIENCE was over: {gate.last_error}"
                    parts.bodies.orders.stop(attempt.execution_id, reason, cause=Cause.SERVICE_AWAY)
                await first_of(draining, order, seconds_max=pause)
        finally:
            draining.cancel()
            wait.end(progress, now())
        await slot.take_back(order)

    def _open_circuit(self, attempt: Attempt, error: Exception) -> None:
        """So that lakeFS is asked for its health before the next poll."""
        gate = self._gate_of(attempt)
        if gate is not None and isinstance(error, UnavailableError | OutcomeUnknownError):
            was_open = gate.state is Circuit.OPEN
            pause = gate.failed(str(error))
            if not was_open:
                # Their rows stay in the queue, where workers that reach lakeFS find them.
                types = [each.name for each in self._parts.types if gate in each.services]
                facts = {"pause_seconds": round(pause, 3), "error": str(error), "not_polled": types}
                write(LOGGER, logging.WARNING, "circuit open: lakefs", facts)

    def _close_circuit(self, attempt: Attempt, *, served: bool) -> None:
        """After an attempt that lakeFS has served; any other decides nothing."""
        gate = self._gate_of(attempt)
        if gate is None or gate.closed:
            return
        if served:
            gate.succeeded()
            write(LOGGER, logging.INFO, "circuit closed: lakefs", {})
        else:
            gate.undecided()

    def _gate_of(self, attempt: Attempt) -> ServiceGate | None:
        return self._parts.lakefs_gate if attempt.task.asks_lakefs else None

    def _log_aside(self, attempt: Attempt, events: AttemptEvents, line: str) -> None:
        """Into the task's log in Conductor, while the next attempt runs."""
        task_id, line = attempt.row.task_id, self._parts.settings.secrets.masked(line)

        async def log() -> None:
            try:
                await self._parts.ports.queue.log(task_id, line)
            except ServiceError as error:
                text = "Conductor did not take a line of the task log"
                events.phase(Phase.WARNED, {"warning": text, "error": str(error)})

        task = asyncio.create_task(log())
        self._aside.add(task)  # asyncio itself does not keep a task alive; a drain waits for these
        task.add_done_callback(self._aside.discard)
