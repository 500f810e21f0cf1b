"""Every attempt of a worker that is under way: its heartbeats, its slot, its order to stop.

`HeartbeatLease` keeps the lease. It reads the row after each beat, because Conductor answers 200 to
a beat of an attempt that was cancelled; a lost attempt stops its body at once. `StopOrders` ends
one attempt or all of them. `SlotLease` gives the slot back after the last beat. `Attempts` starts
what a poller brings and waits for it at a drain. `Bodies` is what runs task functions: executors
or threads.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeAlias, TypeVar, final

from perago.app.attempt.complete import read_verdict
from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.patience import StopOrder
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import AttemptEvents, AttemptListener, WaitLines
from perago.app.worker.slot_budget import SlotBudget, first_of
from perago.domain.attempt import AttemptRecord, ExecutionId, FenceVerdict, Stale, heartbeat_seconds
from perago.domain.commit_metadata import traceparent_of
from perago.domain.errors import BodyFailedError, GuardrailViolation
from perago.domain.hand_back import Cause
from perago.ports.errors import ServiceError, UnavailableError
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, Lease
from perago.ports.workspace import Phase, Progress

# Conductor takes no response time-out below 1 s, so a third of it is longer than this. Without a
# lowest pause a wrong number in a row would make the heartbeats one uninterrupted loop of requests.
PAUSE_SECONDS_MIN = 0.1
# After a beat without an answer the next one follows soon, so that a Conductor that comes back gets
# it at once: by then most of the lease may be gone. Chance spreads the attempts of all workers.
# The least lease that `perago doctor` calls enough is 45 s, of which 15 s are left after a beat
# that was waited for in vain: 4 s leave room for another. Shorter asks an absent Conductor more.
AGAIN_SECONDS_MAX = 4.0


def longest() -> float:
    """The default of `fraction`: no chance, the longest pause."""
    return 1.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The three calls of a lease: send a beat, read whether the attempt counts, report a loss."""

    send: Callable[[], Awaitable[None]]
    look: Callable[[], Awaitable[FenceVerdict]]
    lost: Callable[[Stale], None]
    pause_seconds: float
    fraction: Callable[[], float] = longest


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
            self._plan_unless_ended(again=True)
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
            self._plan_unless_ended(again=failed)

    def _plan_unless_ended(self, *, again: bool) -> None:
        if not self._ended:
            self._plan(again=again)


Answer = TypeVar("Answer")
Order: TypeAlias = "asyncio.Future[BodyStopped]"


@final
class StopOrders:
    """One future per execution that is under way; its result says why it was stopped."""

    def __init__(self) -> None:
        self._open: dict[ExecutionId, Order] = {}
        self._for_all: BodyStopped | None = None

    @contextmanager
    def for_execution(self, execution_id: ExecutionId) -> Generator[Order]:
        """The order of one execution, for as long as the outermost block of it lasts."""
        if (known := self._open.get(execution_id)) is not None:
            yield known  # the attempt and the body that runs for it wait for one order
            return
        order: Order = asyncio.get_running_loop().create_future()
        if self._for_all is not None:
            order.set_result(self._for_all)
        self._open[execution_id] = order
        try:
            yield order
        finally:
            del self._open[execution_id]

    def stop(self, execution_id: ExecutionId, reason: str, *, cause: Cause = Cause.FAILED) -> None:
        """End one; an execution that is not under way is left alone.

        The first order counts, because the attempt may have acted on it already.
        """
        order = self._open.get(execution_id)
        if order is not None and not order.done():
            order.set_result(BodyStopped(reason, cause))

    def stop_all(self, reason: str, *, cause: Cause = Cause.FAILED) -> None:
        """End all, and whatever would start from now on."""
        self._for_all = BodyStopped(reason, cause)
        for execution_id in list(self._open):
            self.stop(execution_id, reason, cause=cause)


@final
class WaitingOrder(StopOrder):
    """The order of one execution, for the steps before its body."""

    def __init__(self, order: Order) -> None:
        self._order = order

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """The answer of `work`, or BodyStopped when the order to stop came first."""
        answer = asyncio.ensure_future(work)
        try:
            await first_of(answer, self._order)
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])
        if answer.cancelled():
            return self._order.result()
        return answer.result()


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


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """One slot as an operator sees it."""

    slot: int
    pid: int | None
    execution_id: str | None
    task_name: str | None


class Bodies(Protocol):
    """Runs bodies in slots; `start` first, `close` last. `orders` end what runs or is about to."""

    orders: StopOrders

    @property
    def ready(self) -> int:
        """How many bodies can run at once, now."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Tell when `ready` may have changed."""
        ...

    def facts(self) -> Sequence[SlotFacts]:
        """Every slot as it is now."""
        ...

    async def start(self) -> None:
        """Make every slot ready."""
        ...

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call in the next free slot."""
        ...

    def dump_stacks(self) -> None:
        """Have every slot write where it is to the log."""
        ...

    async def close(self) -> None:
        """End every slot."""
        ...


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
class AttemptTools:
    """What attempts of a worker share."""

    ports: AttemptPorts
    bodies: Bodies
    tasks: Mapping[str, TaskDefinition]
    settings: AttemptSettings
    listeners: Sequence[AttemptListener]
    budget: SlotBudget
    admitted: Callable[[Attempt, SlotLease, Order, Progress], Awaitable[None]]
    failed: Callable[[Attempt, Exception], None]
    ended: Callable[[Attempt, bool], None]
    broken: Callable[[BaseException], None]


@final
class Attempts:
    """Everything that is under way."""

    def __init__(self, tools: AttemptTools) -> None:
        self._tools = tools
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
        tools = self._tools
        self._taken.append((record.snapshot.task_id, record.snapshot.poll_count))
        attempt = Attempt(
            task=tools.tasks[record.snapshot.task_type],
            record=record,
            execution_id=tools.ports.identities.new_execution_id(),
            settings=tools.settings,
            traceparent=traceparent_of(record.input_data),
        )
        task = asyncio.create_task(self._run(attempt), name=f"attempt-{attempt.execution_id}")
        self._running[task] = attempt
        task.add_done_callback(self._done)

    async def all_ended(self, *, seconds_max: float | None = None) -> bool:
        """Wait for all of them; whether they ended in time."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds_max)
        return not self._running

    async def nothing_aside(self) -> None:
        """Wait for the last lines of the task logs."""
        if self._aside:
            await asyncio.wait(self._aside, timeout=TASK_LOG_SECONDS_MAX)

    async def _run(self, attempt: Attempt) -> None:
        tools = self._tools
        polled_at = tools.ports.clock.monotonic()
        # Begun before the heartbeats, because it counts their requests as well.
        listeners = [
            *tools.listeners,
            WaitLines(lambda line: self._log_aside(attempt, events, line)),
        ]
        events = AttemptEvents(attempt, listeners, tools.ports.clock)
        lease = HeartbeatLease(self._heartbeat(attempt, events), tools.ports.clock).start()
        slot = SlotLease(lease, tools.budget)
        try:
            with tools.bodies.orders.for_execution(attempt.execution_id) as order:
                ports = replace(tools.ports, progress=events, stop_order=WaitingOrder(order))
                await tools.admitted(attempt, slot, order, events)
                report = await run_attempt(
                    ports,
                    attempt,
                    slot,
                    polled_at=polled_at,
                    failed=lambda error: tools.failed(attempt, error),
                )
        finally:
            await slot.end()
        # An attempt that was told to stop may have asked lakeFS for nothing.
        served = report.error is None or isinstance(report.error, SERVED)
        tools.ended(attempt, served and not order.done())
        if events.task_log_line:
            self._log_aside(attempt, events, events.task_log_line)

    def _heartbeat(self, attempt: Attempt, events: AttemptEvents) -> Heartbeat:
        tools, row = self._tools, attempt.row

        def lost(stale: Stale) -> None:
            found = {"field": stale.field, "expected": stale.expected, "found": stale.found}
            events.phase(Phase.LOST, found)
            why = f"the attempt is lost: {stale}"
            tools.bodies.orders.stop(attempt.execution_id, why, cause=Cause.STALE)

        return Heartbeat(
            send=lambda: tools.ports.queue.extend_lease(row, tools.settings.worker_id),
            look=lambda: read_verdict(tools.ports, attempt),
            lost=lost,
            pause_seconds=heartbeat_seconds(
                attempt.record.response_timeout_seconds, attempt.budget
            ),
            fraction=tools.ports.identities.fraction,
        )

    def _log_aside(self, attempt: Attempt, events: AttemptEvents, line: str) -> None:
        """Into the task's log in Conductor, while the next attempt runs."""
        task_id, line = attempt.row.task_id, self._tools.settings.secrets.masked(line)

        async def log() -> None:
            try:
                await self._tools.ports.queue.log(task_id, line)
            except ServiceError as error:
                text = "Conductor did not take a line of the task log"
                events.phase(Phase.WARNED, {"warning": text, "error": str(error)})

        task = asyncio.create_task(log())
        self._aside.add(task)  # asyncio itself does not keep a task alive; a drain waits for these
        task.add_done_callback(self._aside.discard)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tools.broken(error)
