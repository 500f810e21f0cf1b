"""The executor: the process that runs task functions one after the other.

`main` is the program. It imports the task modules, sends `Ready`, and answers each `RunBody` until
the parent closes the connection. It has no keys, and asks its parent for what needs them.
"""

import faulthandler
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import final

from perago.app.authoring.current_attempt import CancelSignal
from perago.app.authoring.failure import failure_reason
from perago.app.authoring.task_declaration import load_module_tasks
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker import frames
from perago.app.worker.frames import sent_outcome
from perago.app.worker.processes import die_with_parent, mark_programs
from perago.app.worker.run_body import BodyCancelled, BodySurroundings, run_body
from perago.domain.errors import ChangesRefusedError
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, Changes

READ_BYTES = 64 * 1024  # larger messages take several reads, nothing else changes
# As JSON a character has at most six bytes, so a record of this length has 6 MB and fits into a
# message of 16 MiB whatever it says. A longer one would end the executor, and with it the attempt.
LOGGED_CHARACTERS_MAX = 1_000_000


@final
class Channel:
    """The one connection to the parent; every thread may send, and one at a time receives.

    That is the main one between two calls, and during a call the thread that asks the parent.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._arrived = select.poll()
        self._arrived.register(descriptor, select.POLLIN)
        self._sending = threading.RLock()
        self._buffer = frames.FrameBuffer()
        self._received: deque[frames.Frame] = deque()

    def send(self, frame: frames.Frame) -> None:
        """Send one message; a parent that is gone ends this process elsewhere."""
        self.send_bytes(frames.encode(frame))

    def send_bytes(self, data: bytes) -> None:
        """Send one message that is encoded already."""
        with self._sending:
            self._socket.sendall(data)

    def receive(self) -> frames.Frame | None:
        """Wait for one message; None when the parent has closed the connection."""
        while not self._received:
            # Not a blocking `recv`: Linux wakes one also when the parent takes what was sent to it,
            # a wake-up for nothing after each message.
            self._arrived.poll()
            data = self._socket.recv(READ_BYTES)
            if not data:
                return None
            self._received.extend(self._buffer.feed(data))
        return self._received.popleft()

    def wait_for_end(self) -> None:
        """Return when the parent has closed its end; reads nothing.

        It waits for the hang-up alone: a message is for `receive`, which another thread calls.
        """
        poll = select.poll()
        hang_up = getattr(select, "POLLRDHUP", select.POLLHUP)
        poll.register(self._socket.fileno(), hang_up)
        poll.poll()


@final
class ChannelLog(logging.Handler):
    """Sends records of Python's logging to the parent, who knows the attempt."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; what cannot be sent is handled as logging does."""
        try:
            text = self.format(record)[:LOGGED_CHARACTERS_MAX]
            # A record may be made by hand; the parent takes a number and a text only.
            level, name = int(record.levelno), str(record.name)
            self._channel.send(frames.Logged(level, name, text))
        except Exception:  # noqa: BLE001 - a log line never ends a body
            self.handleError(record)


@final
class ChannelObserver(BodyObserver):
    """Sends samples and progress to the parent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Send one sample."""
        del call  # the parent knows it
        self._channel.send(frames.Sampled(metric, name, value, labels))

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Send one line of progress."""
        del call  # the parent knows it
        self._channel.send(frames.Progressed(message, facts))


@final
class ExecutorProcess:
    """Runs what the parent sends until it closes the connection."""

    def __init__(self, channel: Channel, tasks: Mapping[str, TaskDefinition]) -> None:
        self._channel = channel
        self._tasks = tasks
        self._cancel: CancelSignal | None = None
        self._in_body = False

    def serve(self) -> None:
        """Answer each call with how it ended."""
        signal.signal(signal.SIGTERM, self._end_body)
        while (frame := self._channel.receive()) is not None:
            if not isinstance(frame, frames.RunBody):
                raise frames.FrameError(f"an executor cannot handle a message of kind {frame.kind}")
            call = _call_of(frame, self._channel)
            self._channel.send(frames.Began(call.execution_id))
            try:
                outcome = self._run(call, frame.worker_id)
            except BodyCancelled:  # it came as the body was about to end
                outcome = BodyStopped("ended")
            _flush()
            data, _ = sent_outcome(call, outcome)
            self._channel.send_bytes(data)
            if isinstance(outcome, BodyStopped):
                return  # an interrupted body may have left anything behind in its modules

    def _run(self, call: BodyCall, worker_id: str) -> BodyOutcome:
        self._cancel = CancelSignal()
        around = BodySurroundings(
            ChannelObserver(self._channel),
            worker_id,
            self._cancel,
            lambda _: self._ask_the_parent(call.execution_id),
        )
        try:
            self._in_body = True
            return run_body(self._tasks[call.task_name], call, around)
        except BodyCancelled:
            return BodyStopped("ended")
        finally:
            self._in_body = False

    def _ask_the_parent(self, execution_id: str) -> Changes | None:
        """Ask what changed, and wait; the parent sends nothing else while a function runs."""
        self._channel.send(frames.ChangesAsked(execution_id))
        answer = self._channel.receive()
        if not isinstance(answer, frames.ChangesAnswered) or answer.execution_id != execution_id:
            raise frames.FrameError("the worker did not answer")
        if answer.refused:
            raise ChangesRefusedError.because(answer.refused)
        return answer.changes

    def _end_body(self, _signal: int, _frame: FrameType | None) -> None:
        if self._cancel is not None:
            self._cancel.set()
        if self._in_body:
            # Off first: a second signal must not raise in the `finally` blocks of the function.
            self._in_body = False
            raise BodyCancelled


def main(arguments: Sequence[str]) -> None:
    """Run one executor: `channel parent-pid module...`."""
    descriptor, parent, *modules = arguments
    # All of this comes before the imports: a task module may start programs, hang or crash, and the
    # parent may die meanwhile.
    die_with_parent()
    if os.getppid() != int(parent):  # it died before this process could ask for that
        os._exit(1)
    mark_programs()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    channel = Channel(int(descriptor))
    threading.Thread(target=_leave_with_parent, args=(channel,), daemon=True).start()
    logging.basicConfig(handlers=[ChannelLog(channel)], level=logging.INFO)
    try:
        tasks = [task for module in modules for task in load_module_tasks(module)]
    except BaseException as error:
        channel.send(frames.ImportFailed(failure_reason(error)))
        raise
    gc.freeze()  # what is imported stays: no collection has to look through it again
    channel.send(frames.Ready())
    ExecutorProcess(channel, {task.name: task for task in tasks}).serve()


def _call_of(frame: frames.RunBody, channel: Channel) -> BodyCall:
    """The call, with functions that send messages in place of those that stayed with the parent."""
    call, taken = frame.call, frames.CheckpointTaken(frame.call.execution_id)
    if call.checkpoints is not None:
        checkpoints = replace(call.checkpoints, taken=lambda: channel.send(taken))
        call = replace(call, checkpoints=checkpoints)
    return replace(call, changes=_of_the_parent) if frame.answers_changes else call


async def _of_the_parent() -> Changes | None:
    """Never called, because an executor asks its parent instead (`ExecutorProcess`)."""
    raise ChangesRefusedError.because("this process has no keys")


def _flush() -> None:
    """Put what the function printed into the pipe first: the parent reads it before the end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # a body may have closed or removed it
            continue


def _leave_with_parent(channel: Channel) -> None:
    """End with the connection: only Linux has the signal that `die_with_parent` asks for."""
    channel.wait_for_end()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
