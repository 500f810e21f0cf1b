"""A worker as a process, seen from outside: started, watched, weighed, stopped.

Asks no server: a body stamps a file. The same for ours and for the last public release.
"""

import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROCESSES = 2
STANDSTILL_SECONDS = 90.0
STOP_SECONDS = 15.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Program:
    """A `perago` and the environment it lives in."""

    subject: str
    python: Path

    @property
    def command(self) -> list[str]:
        """What starts a worker."""
        return [str(self.python.parent / "perago"), "start"]


@dataclass(frozen=True, slots=True)
class Family:
    """A parent and all below it."""

    parent: int
    place: Path

    @property
    def stamps(self) -> Path:
        """Where bodies say that they ran."""
        return self.place / "stamps"

    @property
    def ran(self) -> int:
        """How many bodies have run."""
        return self.stamps.read_bytes().count(b"\n")

    def moments(self) -> list[float]:
        """When they ran, in order."""
        return sorted(map(float, self.stamps.read_text(encoding="ascii").split()))

    def wait_for(self, count: int) -> float:
        """Wait until so many bodies have run; the moment of the last of them."""
        seen, moved = 0, time.monotonic()
        while time.monotonic() - moved < STANDSTILL_SECONDS:
            if (ran := self.ran) >= count:
                return self.moments()[count - 1]
            if ran > seen:
                seen, moved = ran, time.monotonic()
            if not Path(f"/proc/{self.parent}").exists():
                break
            time.sleep(0.02)
        raise RuntimeError(f"{self.ran} of {count} ran; {(self.place / 'screen').read_text()}")

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all, the dead children of the living included."""
        total = 0
        for pid in tree(self.parent):
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
            total += sum(map(int, text.rpartition(")")[2].split()[11:15]))
        return total / TICKS

    @property
    def memory_mb(self) -> list[float]:
        """Resident memory of each, the parent first."""
        sizes: list[float] = []
        for pid in tree(self.parent):
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            sizes.append(round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1))
        return sizes


@contextmanager
def worker(
    program: Program, name: str, place: Path, servers: Mapping[str, str]
) -> Generator[Family]:
    """A worker for the block; the last release has to be killed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PERAGO_")}
    environment |= servers
    environment |= {
        "PYTHONPATH": str(place),
        "BENCH_STAMPS": str(place / "stamps"),
        "PERAGO_WORKSPACE_ROOT": str(place / "workspaces"),
        "PERAGO_LOG_ROOT": str(place / "logs"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    (place / "stamps").touch()
    with (place / "screen").open("w", encoding="utf-8") as screen:
        process = subprocess.Popen(
            [*program.command, name, "-j", str(PROCESSES)],
            cwd=place,
            env=environment,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )
    try:
        yield Family(process.pid, place)
    finally:
        family = tree(process.pid)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in family:
                _end(pid)
            process.wait()


def tree(parent: int) -> list[int]:
    """A process and all below it."""
    found = [parent]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text(encoding="ascii").split())
    return found


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
