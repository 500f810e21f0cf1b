"""Task functions in threads of the worker (`--execution-mode thread`), and what they print.

`ThreadBody` starts a thread for each call. `heard_threads` replaces standard output, standard error
and the log's handlers, so that a line of a task function carries the ids of its attempt, as a line
of an executor does. It tells the functions apart by a context variable. Output of everything else
is written as before.
"""

import asyncio
import io
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Thread
from typing import TextIO, final

from perago.app.authoring.current_attempt import CancelSignal
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.bodies import SlotFacts, StopOrders, first_of
from perago.app.worker.frames import sent_outcome
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.ports.task_body import (
    AskChanges,
    BodyCall,
    BodyOutcome,
    BodyStopped,
    Changes,
    TaskBody,
)


@dataclass(slots=True)
class _Speaker:
    """A body that runs, and the lines it has not ended yet."""

    call: BodyCall
    observer: BodyObserver
    begun: dict[str, str] = field(default_factory=dict[str, str])

    def say(self, stream: str, text: str) -> None:
        *lines, self.begun[stream] = (self.begun.get(stream, "") + text).split("\n")
        for line in lines:
            self.observer.output(self.call, stream, line)

    def end(self) -> None:
        """A line without its end is a line."""
        for stream, line in self.begun.items():
            if line:
                self.observer.output(self.call, stream, line)


_speaker: ContextVar[_Speaker | None] = ContextVar("perago_speaker", default=None)


@contextmanager
def speaking(call: BodyCall, observer: BodyObserver) -> Generator[None]:
    """What is said in this context belongs to this call."""
    speaker = _Speaker(call, observer)
    token = _speaker.set(speaker)
    try:
        yield
    finally:
        _speaker.reset(token)
        speaker.end()


@contextmanager
def heard_threads() -> Generator[None]:
    """Listen to standard output, standard error and the log, for a block."""
    handlers = list(logging.getLogger().handlers)
    before = sys.stdout, sys.stderr
    listener = _LogListener()
    with ExitStack() as stack:
        for handler in handlers:
            handler.addFilter(listener)
            stack.callback(handler.removeFilter, listener)
        sys.stdout, sys.stderr = _Stream("stdout", before[0]), _Stream("stderr", before[1])
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@final
class _Stream(io.TextIOBase):
    """Standard output or error; text from outside of a task function goes to the real stream."""

    def __init__(self, name: str, beneath: TextIO) -> None:
        super().__init__()
        self._name = name
        self._beneath = beneath

    def write(self, text: str) -> int:
        """Write, or report the lines as output of the attempt."""
        speaker = _speaker.get()
        if speaker is None:
            return self._beneath.write(text)
        speaker.say(self._name, text)
        return len(text)

    def flush(self) -> None:
        """Flush the real stream; a line of a task function is reported when it ends."""
        self._beneath.flush()

    def fileno(self) -> int:
        """The one beneath's, for programs that a body starts."""
        return self._beneath.fileno()

    def isatty(self) -> bool:
        """As the one beneath."""
        return self._beneath.isatty()


@final
class _LogListener(logging.Filter):
    """Turns a record of a body into a line of its attempt, once for all handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Records that carry our facts are lines of ours already."""
        speaker = _speaker.get()
        if speaker is None or hasattr(record, "perago"):
            return True
        if not hasattr(record, "perago_heard"):
            record.perago_heard = True
            text = logging.Formatter("%(message)s").format(record)
            speaker.observer.logged(speaker.call, record.levelno, record.name, text)
        return False


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
        self._observer = BodyObserver() if observer is None else observer
        self._worker_id = worker_id
        self.orders = StopOrders()
        self.ready = slots  # threads need no preparation
        self._running: list[BodyCall] = []
        self._heard = ExitStack()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Do nothing: the number of threads never changes."""

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
        """Do nothing: the worker dumps the stacks of its process, and these threads are in it."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call; its thread goes on when something else ends the waiting."""
        cancel = CancelSignal()
        loop = asyncio.get_running_loop()
        around = BodySurroundings(
            self._observer, self._worker_id, cancel, lambda question: _ask_in(loop, question)
        )
        with self.orders.for_execution(call.execution_id) as order:
            if order.done():
                return order.result()
            self._running.append(call)
            task = self._tasks[call.task_name]
            work = _in_thread(lambda: _run(task, call, around), f"perago-{call.execution_id}")
            await first_of(work, order, seconds_max=call.seconds_max or None)
            self._running.remove(call)
            # As in `process_body`: an order that came at the same moment counts for more.
            if work.done() and not order.done():
                return work.result()
            cancel.set()
            if order.done():
                return order.result()
            return BodyStopped(f"the task function ran longer than {call.seconds_max:g} seconds")


def _ask_in(loop: asyncio.AbstractEventLoop, question: AskChanges) -> Changes | None:
    """Ask in the worker's loop, which is another thread's."""
    return asyncio.run_coroutine_threadsafe(question(), loop).result()


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
        with suppress(RuntimeError):  # the loop is closed, and with it all who listened
            loop.call_soon_threadsafe(tell, outcome)

    Thread(target=work, name=name, daemon=True).start()
    return ended
