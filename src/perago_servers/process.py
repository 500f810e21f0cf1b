"""One server process: a port of its own, a directory of its own, healthy or an error.

Decides how a server is started, watched and stopped. Must not know which server it is.
"""

import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perago_servers.cache import cache_root
from perago_servers.errors import ServerError, last_lines

HOST = "127.0.0.1"
# Below the ephemeral range of Linux: a client's socket never sits on a server's port.
PORTS = range(20_000, 32_000)
PORT_TRIES_MAX = 200  # of 12,000: all of them are taken on no machine that still works
START_TRIES_MAX = 5  # a port may be lost between look and start; five times in a row is no chance
POLL_SECONDS = 0.05  # between looks at a server that starts: each test waits for the last one
PORT_TAKEN = ("address already in use", "bindexception", "port already in use")
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run, and how to see that it is up."""

    command: Sequence[str]
    is_ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    deadline_seconds: float = 60.0
    # Its data goes with it, so there is nothing to wait for.
    stop_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A healthy server process."""

    port: int
    pid: int
    directory: Path
    log: Path


@contextmanager
def leased_port() -> Generator[int]:
    """Hold a free loopback port: no other run of this tool gets it, and no server listens there."""
    leases = cache_root() / "ports"
    leases.mkdir(parents=True, exist_ok=True)
    for port in random.sample(PORTS, PORT_TRIES_MAX):
        with (leases / str(port)).open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not _is_free(port):
                continue
            yield port
            return
    raise OSError(f"no free port found in {PORT_TRIES_MAX} tries in {PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@contextmanager
def running(name: str, plan: Callable[[int, Path], Launch]) -> Generator[Started]:
    """Run the server that `plan` makes for a port and a directory, until the block ends.

    A port that another process takes between the look and the start is answered with another port.
    The directory goes with the server, except after an error: then its log is wanted.
    """
    for tries_left in reversed(range(START_TRIES_MAX)):
        with _directory(name) as directory, leased_port() as port:
            log = directory / "server.log"
            launch = plan(port, directory)
            with _process(launch, log) as process:
                found = _wait_until_ready(process, launch)
                if found is None:
                    yield Started(port=port, pid=process.pid, directory=directory, log=log)
                    return
            if tries_left == 0 or not _port_was_taken(log):
                raise ServerError(name, found=found, log=log)


@contextmanager
def _directory(name: str) -> Generator[Path]:
    directory = Path(tempfile.mkdtemp(prefix=f"perago-{name}-"))
    try:
        yield directory
    except BaseException as error:
        if not isinstance(error, Exception):
            shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _process(launch: Launch, log: Path) -> Generator[subprocess.Popen[bytes]]:
    process = _start(launch, log)
    try:
        yield process
    finally:
        _stop(process, launch.stop_seconds)


def _start(launch: Launch, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            launch.command,
            cwd=log.parent,
            env={**os.environ, **launch.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C at the terminal is for the tool, which then stops its servers in order.
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509
        )


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """Return what a child does first so that no server outlives a killed test run."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def _wait_until_ready(process: subprocess.Popen[bytes], launch: Launch) -> str | None:
    """Return None for a healthy server, else what was found."""
    deadline = time.monotonic() + launch.deadline_seconds
    while time.monotonic() < deadline:
        ready = launch.is_ready()
        # In this order: an answer of another server on the port does not count.
        code = process.poll()
        if code is not None:
            return f"the process ended with {code}"
        if ready:
            return None
        time.sleep(POLL_SECONDS)
    return f"no healthy answer within {launch.deadline_seconds:g} s"


def _stop(process: subprocess.Popen[bytes], stop_seconds: float) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(stop_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _port_was_taken(log: Path) -> bool:
    text = last_lines(log, lines=200).lower()
    return any(words in text for words in PORT_TAKEN)
