"""Task functions in executors: one slot for each executor, started again when it dies.

`ProcessBody` gives a call to an idle slot, ends it at its limit or order to stop, and replaces
every executor whose function was ended, because such a function may have left anything behind.
`RunningBody` accepts the end of the one call that runs; late ends of earlier calls are dropped.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker import frames
from perago.app.worker.bodies import Order, SlotFacts, StopOrders, work_until
from perago.app.worker.executor import (
    Executor,
    ExecutorImportError,
    ExecutorProgram,
    ExecutorStartError,
    start_executor,
)
from perago.app.worker_description import restart_backoff_seconds
from perago.domain.attempt import ExecutionId
from perago.domain.hand_back import Cause
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyStopped, TaskBody

# From SIGTERM to SIGKILL: time for the `finally` blocks of a task function. Longer keeps the slot
# and a drain waiting (KILL_SECONDS in `worker` has to be longer than this).
INTERRUPT_SECONDS_MAX = 2.0
# Idle executors leave as soon as their connection closes; whatever is left after this hangs.
CLOSE_SECONDS_MAX = 2.0
# An executor may be killed from outside while it imports (for example for want of memory). Three in
# a row are no accident: the start fails and says why. Later deaths restart with pauses, for ever.
FIRST_STARTS_MAX = 3


@final
class RunningBody:
    """One body in an executor, from the moment it has a slot until the slot is free again.

    Whatever ends the waiting (its answer, its limit, its order to stop, the executor's death) ends
    the waiting of this body only, because each of them holds this object and not the slot.
    """

    def __init__(self, call: BodyCall) -> None:
        self.call = call
        self.has_begun = False
        self.ended: asyncio.Future[BodyOutcome | None] = asyncio.get_running_loop().create_future()

    def give_up(self, _: object = None) -> None:
        """Wait no longer for the body to tell its end."""
        if not self.ended.done():
            self.ended.set_result(None)

    def take(self, frame: frames.Began | frames.Ended) -> bool:
        """Take its begin or its end; whether it ended. A late end of an earlier body is dropped."""
        if frame.execution_id != self.call.execution_id or self.ended.done():
            return False
        self.has_begun = True
        if isinstance(frame, frames.Began):
            return False
        self.ended.set_result(frame.outcome)
        return True


@dataclass(slots=True, eq=False)
class ExecutorSlot:
    """One place for an executor; `crashes` counts since the last body that ended well."""

    number: int
    executor: Executor | None = None
    body: RunningBody | None = None
    crashes: int = 0

    @property
    def call(self) -> BodyCall | None:
        """The call that has this slot."""
        return None if self.body is None else self.body.call

    @property
    def is_idle(self) -> bool:
        """Whether a body may begin here.

        Computed and kept nowhere, because a list of idle slots beside the slots came to hold a
        slot twice after its executor had died idle, and two bodies shared one executor.
        """
        lives = self.executor is not None and not self.executor.exited.done()
        return lives and self.body is None


@final
class ProcessBody(TaskBody):
    """Runs bodies in executors; `start` first, `close` last."""

    def __init__(
        self,
        program: ExecutorProgram,
        clock: Clock,
        *,
        observer: BodyObserver | None = None,
        worker_id: str = "",
        slots: int = 1,
    ) -> None:
        self._program = program
        self._clock = clock
        self._observer = BodyObserver() if observer is None else observer
        self._worker_id = worker_id
        self.orders = StopOrders()
        self._slots = [ExecutorSlot(number) for number in range(1, slots + 1)]
        self._freed = asyncio.Event()
        self._restarts: set[asyncio.Task[None]] = set()
        self._answers: dict[ExecutionId, asyncio.Task[None]] = {}
        self._closing = asyncio.Event()
        self._changed: Callable[[], None] = lambda: None
        self._failed_starts = 0  # in a row, of all slots
        self._why = ""

    @property
    def ready(self) -> int:
        """Executors that live, busy ones included."""
        return sum(slot.executor is not None for slot in self._slots)

    def on_change(self, tell: Callable[[], None]) -> None:
        """Tell when an executor comes or goes."""
        self._changed = tell

    def facts(self) -> list[SlotFacts]:
        """Every slot as it is now."""
        return [
            SlotFacts(
                slot.number,
                slot.executor.pid if slot.executor else None,
                slot.call.execution_id if slot.call else None,
                slot.call.task_name if slot.call else None,
            )
            for slot in self._slots
        ]

    async def start(self) -> None:
        """Start every executor; ExecutorStartError when one cannot import its tasks."""
        starts = [asyncio.create_task(self._first_start(slot)) for slot in self._slots]
        try:
            done, _ = await asyncio.wait(starts)
        except asyncio.CancelledError:
            for start in starts:
                start.cancel()  # each ends the process it has begun
            await asyncio.wait(starts)
            raise
        for start in done:
            start.result()

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call in the next executor that is free."""
        with self.orders.for_execution(call.execution_id) as order:
            slot = await self._idle_slot(order)
            if isinstance(slot, BodyStopped):
                return slot
            slot.body = RunningBody(call)  # no await since it was found idle: it still is
            executor = slot.executor
            assert executor is not None, "an idle slot has one"
            try:
                return await self._run_in(executor, slot, order)
            except asyncio.CancelledError:
                # Its body goes on. Without an executor the slot is not idle until the next starts.
                slot.executor = None
                executor.kill()
                raise
            finally:
                slot.body = None
                self._slots_changed()

    def dump_stacks(self) -> None:
        """Have every executor write its stacks to its standard error."""
        for slot in self._slots:
            if slot.executor is not None:
                slot.executor.dump_stacks()

    async def close(self) -> None:
        """Let idle executors leave, and kill what stays."""
        self._closing.set()
        for answer in self._answers.values():
            answer.cancel()
        if self._restarts:
            # Never cancelled, because a process that is half started would be left over.
            await asyncio.wait(self._restarts)
        executors = [slot.executor for slot in self._slots if slot.executor is not None]
        for executor in executors:
            executor.close()
        if executors:
            exits = [executor.exited for executor in executors]
            await asyncio.wait(exits, timeout=CLOSE_SECONDS_MAX)
            for executor in executors:
                executor.kill()
            await asyncio.wait(exits)

    async def _idle_slot(self, order: Order) -> ExecutorSlot | BodyStopped:
        """A slot where a body may begin, or why there is none: an order to stop, or no executor.

        A machine that starts no executor may need hours: other workers can have the row meanwhile.
        """
        while not order.done():
            if self._failed_starts >= FIRST_STARTS_MAX and not self.ready:
                return BodyStopped(f"no executor starts: {self._why}", Cause.EXECUTOR_LOST)
            if (idle := next((slot for slot in self._slots if slot.is_idle), None)) is not None:
                return idle
            self._freed.clear()
            await work_until(self._freed.wait(), order)
        return order.result()

    async def _run_in(self, executor: Executor, slot: ExecutorSlot, order: Order) -> BodyOutcome:
        body = slot.body
        assert body is not None, "the slot was given to it"
        call = body.call
        try:
            asks = call.changes is not None
            executor.send(frames.RunBody(call, self._worker_id, answers_changes=asks))
        except frames.FrameError as error:
            return _unsendable(call, error)
        outcome = await _end_of(body, order)
        # The order counts also when the function ended at the same moment: the attempt is lost, or
        # the drain's grace is over, so its result must not be published.
        if order.done():
            await self._end(executor)
            return order.result()
        if isinstance(outcome, BodyStopped):
            # A signal from outside ended the body, and its executor leaves after it. Until it has,
            # the slot must look busy, or the next body is sent to a process that no longer reads.
            await self._end(executor)
        if outcome is not None:
            return outcome
        if executor.exited.done():
            slot.crashes += 1
            if body.has_begun:
                return BodyStopped(f"{executor.death()}; it ran {call.task_name}")
            # The machine killed it, or a person did: nothing of the task had run.
            text = f"{executor.death()}; it had not begun {call.task_name}"
            return BodyStopped(text, Cause.EXECUTOR_LOST)
        await self._end(executor)
        return BodyStopped(f"the task function ran longer than {call.seconds_max:g} seconds")

    async def _end(self, executor: Executor) -> None:
        """Interrupt, wait a moment, kill: no process whose body was ended is used again."""
        executor.interrupt()
        await asyncio.wait({executor.exited}, timeout=INTERRUPT_SECONDS_MAX)
        executor.kill()
        await asyncio.wait({executor.exited})

    def _slots_changed(self) -> None:
        """A slot may have become idle, or the number of living executors may have changed."""
        self._freed.set()
        self._changed()

    async def _first_start(self, slot: ExecutorSlot) -> None:
        """Try again when an executor is killed while it imports; a module's own error counts."""
        for left in reversed(range(FIRST_STARTS_MAX)):
            try:
                await self._start(slot)
            except ExecutorImportError:
                raise
            except ExecutorStartError:
                if not left:
                    raise
            else:
                return

    async def _start(self, slot: ExecutorSlot) -> None:
        executor = await start_executor(
            self._program,
            take=lambda frame: self._take(slot, frame),
            line=lambda stream, line: self._observer.output(slot.call, stream, line),
        )
        slot.executor, self._failed_starts = executor, 0
        executor.exited.add_done_callback(lambda _: self._exited(slot, executor))
        self._observer.executor(slot.number, "executor started", {"pid": executor.pid})
        self._slots_changed()

    def _exited(self, slot: ExecutorSlot, executor: Executor) -> None:
        """Start the next executor, at once when we ended this one, else after a pause."""
        if slot.executor is executor:
            slot.executor = None
        if slot.body is not None:
            slot.body.give_up()
        self._slots_changed()
        if self._closing.is_set():
            return
        facts = {"pid": executor.pid, "how": executor.death()}
        self._observer.executor(slot.number, "executor ended", facts)
        if slot.body is None and slot.crashes == 0:
            slot.crashes = 1  # it died while idle: not by our order, so it restarts after a pause
        restart = asyncio.get_running_loop().create_task(self._restart(slot))
        self._restarts.add(restart)
        restart.add_done_callback(self._restarts.discard)

    async def _restart(self, slot: ExecutorSlot) -> None:
        while not self._closing.is_set():
            await asyncio.sleep(0)  # let the run that saw the exit count the crash
            if slot.crashes:
                pause = restart_backoff_seconds(slot.crashes - 1)
                facts = {"restart_delay_seconds": pause, "crashes": slot.crashes}
                self._observer.executor(slot.number, "executor restarts", facts)
                await self._pause(pause)
                if self._closing.is_set():
                    return
            try:
                await self._start(slot)
            except (ExecutorStartError, OSError) as error:
                slot.crashes += 1
                self._failed_starts, self._why = self._failed_starts + 1, str(error)
                said = {"error": self._why}
                self._observer.executor(slot.number, "executor does not start", said)
                self._slots_changed()
                continue
            return

    async def _pause(self, seconds: float) -> None:
        """Wait before a restart, but not longer than until the end."""
        closing = asyncio.ensure_future(self._closing.wait())
        await work_until(self._clock.sleep(seconds), closing)
        closing.cancel()

    def _take_question(
        self,
        slot: ExecutorSlot,
        call: BodyCall,
        frame: frames.CheckpointTaken | frames.ChangesAsked,
    ) -> None:
        """What the function of this very call wants of the parent."""
        if frame.execution_id != call.execution_id:
            return
        if isinstance(frame, frames.CheckpointTaken):
            if call.checkpoints is not None:
                call.checkpoints.taken()
        elif slot.executor is not None and call.execution_id not in self._answers:
            # One at a time, as the executor's own code asks: its process is not trusted, and each
            # question is requests to lakeFS.
            work = asyncio.create_task(_answer_changes(slot.executor, call))
            self._answers[call.execution_id] = work
            work.add_done_callback(lambda _: self._answers.pop(call.execution_id, None))

    def _take(self, slot: ExecutorSlot, frame: frames.Frame) -> None:
        call = slot.call
        match frame:
            case frames.Logged(level, logger, text):
                self._observer.logged(call, level, logger, text)
            case frames.Sampled(metric, name, value, labels) if call is not None:
                self._observer.sampled(call, metric, name, value, labels)
            case frames.Progressed(message, facts) if call is not None:
                self._observer.progressed(call, message, facts)
            case frames.CheckpointTaken() | frames.ChangesAsked() if call is not None:
                self._take_question(slot, call, frame)
            case frames.Began() | frames.Ended():
                if slot.body is not None and slot.body.take(frame):
                    slot.crashes = 0
            case _:
                pass


async def _answer_changes(executor: Executor, call: BodyCall) -> None:
    """Answer in any case: the function waits for it, and has its limit for everything together."""
    execution_id = call.execution_id
    try:
        found = None if call.changes is None else await call.changes()
        answer = frames.ChangesAnswered(execution_id, found)
    except Exception as error:  # noqa: BLE001 - a question never ends a worker
        answer = frames.ChangesAnswered(execution_id, refused=str(error) or type(error).__name__)
    try:
        executor.send(answer)
    except frames.FrameError as error:
        executor.send(frames.ChangesAnswered(execution_id, refused=f"its paths: {error}"))


async def _end_of(body: RunningBody, order: Order) -> BodyOutcome | None:
    """The outcome that was sent; None when the order, the death or the limit came first."""
    loop, seconds = asyncio.get_running_loop(), body.call.seconds_max
    order.add_done_callback(body.give_up)
    late = loop.call_later(seconds, body.give_up) if seconds else None
    try:
        return await body.ended
    finally:
        order.remove_done_callback(body.give_up)  # the order may outlive the body
        if late is not None:
            late.cancel()


def _unsendable(call: BodyCall, error: frames.FrameError) -> BodyRaised:
    if call.staged is None:
        return BodyRaised(f"params cannot be sent to an executor: {error} [PRG-I003]")
    # The view of a check is data: about 150,000 paths of usual length fit into one message.
    return BodyRaised(f"its paths cannot be sent to an executor: {error}")
