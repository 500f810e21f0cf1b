"""Task bodies in threads of this process: for tests, `perago run`, and tiny deployments.

A thread cannot be killed: a body that is stopped is told so, abandoned, and its result dropped.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Thread
from typing import final

from perago.app.authoring.current_attempt import CancelSignal
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.body_observer import BodyObserver, NobodyObserves
from perago.app.worker.bodies import SlotFacts
from perago.app.worker.first_of import first_of
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.app.worker.sent_outcome import sent_outcome
from perago.app.worker.stop_orders import StopOrders
from perago.app.worker.thread_output import heard_threads, speaking
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, TaskBody


@final
class ThreadBody(TaskBody):
    """Runs the functions of the given tasks, one thread a call."""

    def __init__(
        self,
        tasks: Mapping[str, TaskDefinition],
        *,
        observer: BodyObserver | None = None,
        worker_id: str = "",
        slots: int = 1,
    ) -> None:
        self._tasks = tasks
        self._observer = NobodyObserves() if observer is None else observer
        self._worker_id = worker_id
        self.orders = StopOrders()
        self._slots = slots
        self._running: list[BodyCall] = []
        self._heard = ExitStack()

    @property
    def ready(self) -> int:
        """As many as were asked for: threads need no preparation."""
        return self._slots

    def on_change(self, tell: Callable[[], None]) -> None:
        """Nothing changes here."""

    def facts(self) -> Sequence[SlotFacts]:
        """The bodies that run."""
        pid = os.getpid()
        return [
            SlotFacts(number, pid, call.execution_id, call.task_name)
            for number, call in enumerate(self._running, start=1)
        ]

    async def start(self) -> None:
        """Listen to what bodies say from now on."""
        self._heard.enter_context(heard_threads())

    async def close(self) -> None:
        """Threads that still run are daemons; they end with the process."""
        self._heard.close()

    def dump_stacks(self) -> None:
        """The stacks are this process's own."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call; its thread goes on when something else ends the waiting."""
        cancel = CancelSignal()
        around = BodySurroundings(self._observer, self._worker_id, cancel)
        with self.orders.for_execution(call.execution_id) as order:
            if order.done():
                return BodyStopped(order.result())
            self._running.append(call)
            task = self._tasks[call.task_name]
            work = _in_thread(lambda: _run(task, call, around), f"perago-{call.execution_id}")
            await first_of(work, order, seconds_max=call.seconds_max or None)
            self._running.remove(call)
            if work.done() and not order.done():
                return work.result()
            cancel.set()
            if order.done():
                return BodyStopped(order.result())
            return BodyStopped(f"the body ran longer than {call.seconds_max:g} seconds")


def _run(task: TaskDefinition, call: BodyCall, around: BodySurroundings) -> BodyOutcome:
    """Run the body; a result that an executor could not send is a failure here as well."""
    with speaking(call, around.observer):
        _, outcome = sent_outcome(call, run_body(task, call, around))
    return outcome


def _in_thread(run: Callable[[], BodyOutcome], name: str) -> "asyncio.Future[BodyOutcome]":
    """Run in a thread of its own: those of a pool are waited for when the process ends."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BodyOutcome] = loop.create_future()

    def tell(outcome: BodyOutcome) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def work() -> None:
        outcome = run()
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(tell, outcome)

    Thread(target=work, name=name, daemon=True).start()
    return ended
