"""One server process: a port of its own, a directory of its own, healthy or an error.

Decides how a server is started, watched and stopped, and by which environment variables another
process reaches it: what `up` prints is what the test fixtures read. Must not know which server it
is.
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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from perago_servers.cache import LOG_LINES_SHOWN, cache_root, last_lines

HOST = "127.0.0.1"
# Below the ephemeral range of Linux: a client's socket never sits on a server's port.
PORTS = range(20_000, 32_000)
PORT_TRIES_MAX = 200  # of 12,000: all of them are taken on no machine that still works
START_TRIES_MAX = 5  # a port may be lost between look and start; five times in a row is no chance
POLL_SECONDS = 0.05  # between looks at a server that starts: each test waits for the last one
PORT_TAKEN = ("address already in use", "bindexception", "port already in use")
WATCH_SECONDS = 0.5  # between looks at servers that run for a person, who reads what is said
PORT_TAKEN_LINES = 200  # of the log; a Java stack trace may follow the words
PR_SET_PDEATHSIG = 1
PREFIX = "PERAGO_TEST_"
LOG_NAME = "server.log"


class ServerError(Exception):
    """A server did not come up, or has ended; its directory and log are kept."""

    def __init__(self, name: str, *, found: str, log: Path) -> None:
        """Keep the facts and add the end of the log to the message."""
        self.name = name
        self.found = found
        self.log = log
        super().__init__(
            f"{name} {found}; its directory is kept"
            f"\n--- last {LOG_LINES_SHOWN} lines of {log}\n{last_lines(log)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server; where another process has started it, `process` and `data` are None."""

    endpoint: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)
    data: Path | None = None

    @property
    def pid(self) -> int | None:
        """Return its process id."""
        return None if self.process is None else self.process.pid

    @property
    def log(self) -> Path | None:
        """Return the file of its output."""
        return None if self.data is None else self.data / LOG_NAME

    def variables(self, name: str) -> dict[str, str]:
        """Return the variables with which another process reaches this server as `name`."""
        return {variable: getattr(self, each) for each, variable in _variables(self, name)}

    @classmethod
    def given(cls, name: str) -> Self | None:
        """Return the server that the environment names; without its secret it is an error."""
        named = dict(_variables(cls, name))
        if not os.environ.get(named["endpoint"]):
            return None
        found: dict[str, Any] = {each: os.environ[named[each]] for each in named}
        return cls(**found)


AnyServer = TypeVar("AnyServer", bound=Server)


def _variables(server: Server | type[Server], name: str) -> Iterator[tuple[str, str]]:
    """The fields that others need, with their variables: lakefs-s3 has LAKEFS_S3_ENDPOINT."""
    prefix = PREFIX + name.upper().replace("-", "_")
    for each in fields(server):
        if each.default is MISSING:
            yield each.name, f"{prefix}_{each.name.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run, and how to see that it is up."""

    command: Sequence[str]
    is_ready: Callable[[], bool]
    scheme: str = "http"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    deadline_seconds: float = 60.0
    # Its data goes with it, so there is nothing to wait for.
    stop_seconds: float = 2.0


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
def running(
    name: str, plan: Callable[[int, Path], Launch], made: Callable[..., AnyServer]
) -> Generator[AnyServer]:
    """Run what `plan` says for a port and a directory; the server is what `made` makes of it.

    A port that another process takes between the look and the start is answered with another port.
    The directory goes with the server, except after an error: then its log is wanted.
    """
    for tries_left in reversed(range(START_TRIES_MAX)):
        with _directory(name) as directory, leased_port() as port:
            log = directory / LOG_NAME
            launch = plan(port, directory)
            with _process(launch, log) as process:
                found = _wait_until_ready(process, launch)
                if found is None:
                    endpoint = f"{launch.scheme}://{HOST}:{port}"
                    yield made(endpoint=endpoint, process=process, data=directory)
                    return
            if tries_left == 0 or not _port_was_taken(log):
                raise ServerError(name, found=f"did not become healthy: {found}", log=log)


def wait_until_one_ends(servers: Mapping[str, Server]) -> NoReturn:
    """Wait for ever; raise ServerError for the first server of this process that ends."""
    while True:
        for name, server in servers.items():
            code = None if server.process is None else server.process.poll()
            if code is not None and server.log is not None:
                found = f"is not running any more: the process ended with {code}"
                raise ServerError(name, found=found, log=server.log)
        time.sleep(WATCH_SECONDS)


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
    text = last_lines(log, PORT_TAKEN_LINES).lower()
    return any(words in text for words in PORT_TAKEN)
