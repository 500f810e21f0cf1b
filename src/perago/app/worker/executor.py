"""One executor seen from its parent: started, spoken to, interrupted, killed, seen dead.

Starts a fresh interpreter, never a fork of this one. Which body it runs when is decided by
`process_body`.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from perago.app.worker import frames
from perago.app.worker.processes import ExecutorUser
from perago.app.worker.run_body import CapturedOutput
from perago.app.worker.slot_budget import first_of

# A module and not a fork: a fork would have the worker's memory, and with it the keys.
PROGRAM = "perago.app.worker.executor_process"
# Another Python gets this package by its path, and nothing else of the worker's packages: what the
# team has installed there is what its code imports. Both sides then exchange the same frames,
# whatever perago that environment may have.
_IN_ANOTHER_PYTHON = """\
import importlib.util, runpy, sys
root, program = sys.argv.pop(1), sys.argv.pop(1)
where = {"submodule_search_locations": [root]}
spec = importlib.util.spec_from_file_location("perago", root + "/__init__.py", **where)
sys.modules["perago"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["perago"])
runpy.run_module(program, run_name="__main__", alter_sys=True)
"""
_PACKAGE = Path(__file__).parents[2]
# For the imports of task modules, of which large libraries take tens of seconds on a busy machine.
# Shorter fails a worker that would have come up; longer hides a module that waits for a service.
READY_SECONDS_MAX = 120.0
# Conductor gets a reason of 500 characters (PERAGO_FAILURE_REASON_MAX_LENGTH). 400 for the last
# words of the process leave room for how it ended and which task it ran. The last line of a
# traceback names the error, and the four before it say where.
REASON_LINES = 5
REASON_CHARACTERS = 400
# One buffer for each executor, kept for its life, so that a message allocates none. A longer
# message takes several rounds and nothing else.
RECEIVE_BYTES = 64 * 1024


class ExecutorStartError(Exception):
    """An executor ended, or said no, before it was ready."""


class ExecutorImportError(ExecutorStartError):
    """A task module cannot be imported; another try would not help."""


@dataclass(frozen=True, slots=True)
class ExecutorProgram:
    """What to start: the task modules, the environment without credentials, as whom, and where.

    Without a user it is the worker's own, with its groups; without a Python the worker's own.
    """

    modules: Sequence[str]
    environment: Mapping[str, str]
    user: ExecutorUser | None = None
    python: str | None = None

    @property
    def command(self) -> list[str]:
        """The interpreter and what it runs; the arguments of the program follow."""
        if self.python is None:
            return [sys.executable, "-m", PROGRAM]
        return [self.python, "-c", _IN_ANOTHER_PYTHON, str(_PACKAGE), PROGRAM]


@dataclass(frozen=True, slots=True)
class ExecutorListener:
    """Gets what an executor sends: its messages, and each output line with its stream's name."""

    frame: Callable[[frames.Frame], None]
    line: Callable[[str, str], None]


@final
class _Connection(asyncio.BufferedProtocol):
    """Bytes in, messages out; a message that is not one of ours ends the executor."""

    def __init__(self, take: Callable[[frames.Frame], None], broken: Callable[[], None]) -> None:
        self._take = take
        self._broken = broken
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._buffer = frames.FrameBuffer()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what arrives."""
        del sizehint
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over the messages that are complete."""
        try:
            for frame in self._buffer.feed(self._received[:nbytes]):
                self._take(frame)
        except frames.FrameError:
            self._broken()


@final
class Executor:
    """A running executor process; `exited` ends with it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: Sequence[CapturedOutput],
        listener: ExecutorListener,
    ) -> None:
        self._process = process
        self._output = output
        self._written = select.poll()
        for each in output:
            self._written.register(each.read_end, select.POLLIN)
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exited = asyncio.create_task(self._wait(), name="perago-executor-exit")

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    async def connect(self, ours: socket.socket) -> None:
        """Listen, and wait until the task modules are imported."""
        loop = asyncio.get_running_loop()
        for output in self._output:
            output.started(loop)
        self._transport, _ = await loop.create_connection(
            lambda: _Connection(self._take, self.kill), sock=ours
        )
        await first_of(self._ready, self.exited, seconds_max=READY_SECONDS_MAX)
        if self._ready.done():
            self._ready.result()
            return
        if self.exited.done():
            raise ExecutorStartError(self.death())
        self.kill()
        raise ExecutorStartError(f"not ready after {READY_SECONDS_MAX:g} seconds")

    def send(self, frame: frames.Frame) -> None:
        """Send one message; raises FrameError for what cannot be sent."""
        assert self._transport is not None, "connected first"
        self._transport.write(frames.encode(frame))

    def interrupt(self) -> None:
        """Raise in the body."""
        self._signal(signal.SIGTERM)

    def dump_stacks(self) -> None:
        """Have the executor write the stacks of its threads to its standard error."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End the process now, and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ask an idle executor to leave."""
        if self._transport is not None:
            self._transport.close()

    def drain_output(self) -> None:
        """Take every line that is written; one `poll` says that there is none, as is usual."""
        if self._written.poll(0):
            for output in self._output:
                output.drain()

    def death(self) -> str:
        """How the process ended, with the last lines of its standard error."""
        code = self._process.returncode
        if code is None:
            how = "executor process ended its connection"
        elif code < 0:
            how = f"executor process was killed by {signal.Signals(-code).name}"
        else:
            how = f"executor process exited with code {code}"
        *_, errors = self._output
        lines = [line for line in errors.last_lines if line.strip()][-REASON_LINES:]
        said = " | ".join(lines)[-REASON_CHARACTERS:]
        return f"{how}; last lines: {said}" if said else how

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _take(self, frame: frames.Frame) -> None:
        self.drain_output()
        match frame:
            case frames.Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
            case frames.ImportFailed(reason):
                if not self._ready.done():
                    self._ready.set_exception(ExecutorImportError(reason))
            case _:
                self._listener.frame(frame)

    async def _wait(self) -> int:
        code = await self._process.wait()
        self.kill()  # what a body started and left behind
        for output in self._output:
            output.drain()
            output.close()
        if self._transport is not None:
            self._transport.close()
        return code


async def start_executor(program: ExecutorProgram, listener: ExecutorListener) -> Executor:
    """Start an executor; it is ready when this returns, ExecutorStartError says why it is not."""
    user = program.user
    with contextlib.ExitStack() as unused:
        ours, theirs = socket.socketpair()
        unused.callback(ours.close)
        unused.callback(theirs.close)
        ours.setblocking(False)  # noqa: FBT003 - the signature is the library's
        output: list[CapturedOutput] = []
        for stream in ("stdout", "stderr"):
            output.append(CapturedOutput(partial(listener.line, stream)))
            unused.callback(output[-1].close)
            if user is not None:  # so that a body can open /dev/stdout by its name
                os.fchown(output[-1].write_end, user.uid, user.gid)
        process = await asyncio.create_subprocess_exec(
            *(*program.command, str(theirs.fileno()), str(os.getpid()), *program.modules),
            env=program.environment if user is None else user.environment(program.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output[0].write_end,
            stderr=output[1].write_end,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
        )
        # Only now are they the executor's. A machine that can start no process (too many of them,
        # no memory, no open file left) is asked again and again, and each try must leave nothing.
        unused.pop_all()
        theirs.close()
    executor = Executor(process, output, listener)
    try:
        await executor.connect(ours)
    except BaseException:
        executor.kill()
        await asyncio.shield(executor.exited)
        raise
    return executor
