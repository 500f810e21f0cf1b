"""One executor seen from its parent: started, spoken to, interrupted, killed, seen dead.

Starts a fresh interpreter, never a fork of this one. `executor_environment` leaves out what opens
lakeFS or Conductor, because task functions are not trusted with these keys; a function that needs
one gets it as a secret of its own, under a name of its own. Spark tasks and thread mode are the
stated exceptions. `CapturedOutput` reads an output pipe line by line. Which body an executor runs
when is decided by `process_body`.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final
from urllib.parse import unquote

from perago.app.worker import frames
from perago.app.worker.bodies import first_of
from perago.app.worker.executor_user import ExecutorUser
from perago.domain.text import Secrets

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
# By prefix, so that a variable that a later release adds is left out without a change here.
# systemd's two would let a task function report the worker ready, or keep its watchdog quiet.
CREDENTIAL_PREFIXES = (
    "CONDUCTOR_",
    "LAKECTL_",
    "LAKEFS_",
    "PERAGO_CONDUCTOR",
    "PERAGO_LAKEFS",
    "OPENLINEAGE_",
    "NOTIFY_SOCKET",
    "WATCHDOG_",
    "PYSPARK_GATEWAY_",  # the JVM of spark-submit is the parent's alone
)
# Longer than the 4 of log lines: a match here drops a whole variable, and a key like `test` would
# take PATH and HOME of many machines.
SECRET_CHARACTERS_MIN = 8
READ_BYTES = 64 * 1024  # what a pipe of Linux holds: one read empties it
# A longer line is cut into several. Without a limit, output without line ends (a progress bar,
# binary data) would be collected in the worker's memory. 16 KiB are far above a line for people. A
# longer line of JSON is cut as well.
LINE_BYTES_MAX = 16 * 1024
# When the executor dies, the reason shows the last 5 lines that are not blank. Tracebacks and
# progress bars print blank ones between them, so more than 5 are kept.
LAST_LINES = 20


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
class CapturedOutput:
    """One pipe: its write end for the child, its lines for a function."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._rest = b""
        self._open = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def started(self, loop: asyncio.AbstractEventLoop) -> None:
        """The child has its end: close ours, and read from now on.

        While any write end is open, a reader never sees the end of the pipe.
        """
        os.close(self.write_end)
        loop.add_reader(self.read_end, self.drain)
        self._loop = loop

    def drain(self) -> None:
        """Take everything that is in the pipe now."""
        while self._open:
            try:
                data = os.read(self.read_end, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            self._cut(data)

    def close(self) -> None:
        """Read no more; a line without its end is a line."""
        if not self._open:
            return
        self._open = False
        if self._loop is None:  # never started: the write end is still ours
            os.close(self.write_end)
        else:
            self._loop.remove_reader(self.read_end)
        with contextlib.suppress(OSError):
            os.close(self.read_end)
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _cut(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.last_lines.append(text)
        self._take(text)


@final
class Executor:
    """A running executor process; `exited` ends with it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: Sequence[CapturedOutput],
        take: Callable[[frames.Frame], None],
    ) -> None:
        self._process = process
        self._output = output
        self._written = select.poll()
        for each in output:
            self._written.register(each.read_end, select.POLLIN)
        self._take_other = take
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
                self._take_other(frame)

    async def _wait(self) -> int:
        code = await self._process.wait()
        self.kill()  # what a body started and left behind
        for output in self._output:
            output.drain()
            output.close()
        if self._transport is not None:
            self._transport.close()
        return code


async def start_executor(
    program: ExecutorProgram,
    *,
    take: Callable[[frames.Frame], None],
    line: Callable[[str, str], None],
) -> Executor:
    """Start an executor; it is ready when this returns, ExecutorStartError says why it is not.

    `take` gets its messages, and `line` what it prints: the name of the stream, and a line.
    """
    user = program.user
    with contextlib.ExitStack() as unused:
        ours, theirs = socket.socketpair()
        unused.callback(ours.close)
        unused.callback(theirs.close)
        ours.setblocking(False)  # noqa: FBT003 - the signature is the library's
        output: list[CapturedOutput] = []
        for stream in ("stdout", "stderr"):
            output.append(CapturedOutput(partial(line, stream)))
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
    executor = Executor(process, output, take)
    try:
        await executor.connect(ours)
    except BaseException:
        executor.kill()
        await asyncio.shield(executor.exited)
        raise
    return executor


def executor_environment(
    environment: Mapping[str, str], secrets: Collection[str] = ()
) -> dict[str, str]:
    """Leave out what is named like a credential, and whatever holds the text of one."""
    known = Secrets.of(each for each in secrets if len(each) >= SECRET_CHARACTERS_MIN)
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(CREDENTIAL_PREFIXES) and known.masked(value) == value
    }


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Values that are secret by their variable's name; of headers each value for itself as well."""
    for name, value in environment.items():
        if not value or name.endswith("_FILE"):  # a path is no secret
            continue
        if name.startswith(("CONDUCTOR_AUTH_", "LAKECTL_CREDENTIALS_", "OPENLINEAGE_API_KEY")):
            yield value
        elif name.startswith("OTEL_EXPORTER_OTLP_") and "HEADERS" in name:
            yield value
            for header in value.split(","):
                sent = unquote(header.partition("=")[2].strip())
                # A token is told without its scheme, as in `Bearer ...`.
                yield from {sent, sent.rpartition(" ")[2]} - {""}
