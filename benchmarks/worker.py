"""`perago start` beside the last public release: attempts a second, CPU, first completion, memory.

Both drain the same kind of queue on one real Conductor, one after the other, in one run: an empty
task without a workspace, two executors. A body stamps a file, so that nobody asks the server.
"""

import argparse
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from tools.peer import peer_environment
from tools.servers import conductor_server

RESULT = Path(__file__).parent / "results" / "worker.json"
PROCESSES = 2
TASKS = 1000
IDLE_SECONDS = 10.0
WAIT_SECONDS = 300.0
TICKS = os.sysconf("SC_CLK_TCK")
MODULE = """
import os, time
from pydantic import BaseModel
from perago import task

class Params(BaseModel):
    pass

class Result(BaseModel):
    ok: bool

@task(name={name!r}, owner_email="data@example.com")
def body(params: Params) -> Result:
    with open(os.environ["BENCH_STAMPS"], "a") as stamps:
        stamps.write(f"{{time.time()}}\\n")
    return Result(ok=True)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One subject on one case."""

    case: str
    subject: str
    attempts: int
    attempts_per_second: float
    cpu_ms_per_attempt: float
    first_completion_s: float
    rss_mb: float
    parent_rss_mb: float
    idle_cpu_percent: float


@dataclass(frozen=True, slots=True)
class Program:
    """A `perago` and the environment it lives in."""

    subject: str
    python: Path

    @property
    def command(self) -> list[str]:
        """What starts a worker."""
        return [str(self.python.parent / "perago"), "start"]


def main() -> None:
    """Measure both and write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--ours", action="store_true", help="leave the last release out")
    options = parser.parse_args()
    programs = [Program("perago", Path(sys.executable))]
    if not options.ours:
        programs.append(Program("perago 0.6.1", peer_environment() / "bin" / "python"))
    rows: list[Row] = []
    started = time.monotonic()
    with conductor_server() as server:
        for program in programs:
            row = measure(program, server.api_url, options.tasks)
            print(json.dumps(asdict(row)), flush=True)
            rows.append(row)
    taken = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - started),
    }
    if not options.ours:
        document = {"taken": taken, "rows": [asdict(row) for row in rows]}
        RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measure(program: Program, api: str, tasks: int) -> Row:
    """Fill the queue, start a worker, watch it drain the queue and then do nothing."""
    name = f"bench_{secrets.token_hex(6)}"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / f"{name}.py").write_text(MODULE.format(name=name), encoding="utf-8")
        fill(api, name, tasks)
        stamps = place / "stamps"
        stamps.touch()
        began = time.time()
        with worker(program, api, name, place) as parent:
            first = wait_for(stamps, 1, parent)
            cpu_before, count_before = cpu_seconds(parent), lines(stamps)
            last = wait_for(stamps, tasks, parent)
            cpu = cpu_seconds(parent) - cpu_before
            parent_rss, rss = memory_mb(parent)
            time.sleep(2)
            idle_before = cpu_seconds(parent)
            time.sleep(IDLE_SECONDS)
            idle = cpu_seconds(parent) - idle_before
    return Row(
        case=f"{tasks} empty tasks, -j {PROCESSES}",
        subject=program.subject,
        attempts=tasks,
        attempts_per_second=round((tasks - 1) / (last - first), 1),
        cpu_ms_per_attempt=round(1000 * cpu / (tasks - count_before), 2),
        first_completion_s=round(first - began, 2),
        rss_mb=round(rss, 1),
        parent_rss_mb=round(parent_rss, 1),
        idle_cpu_percent=round(100 * idle / IDLE_SECONDS, 2),
    )


def fill(api: str, name: str, tasks: int) -> None:
    """Register task and workflow, and start so many workflows."""
    task = {"name": name, "ownerEmail": "data@example.com", "retryCount": 3}
    send(api, "/metadata/taskdefs", [task | {"responseTimeoutSeconds": 60, "timeoutSeconds": 0}])
    row = {"name": name, "taskReferenceName": "only", "type": "SIMPLE"}
    workflow = {"name": name, "version": 1, "schemaVersion": 2, "ownerEmail": "data@example.com"}
    nothing: dict[str, object] = {}
    tasks_of: list[object] = [row | {"inputParameters": {"params": nothing}}]
    send(api, "/metadata/workflow", {**workflow, "tasks": tasks_of})

    def start(_number: int) -> None:
        send(api, f"/workflow/{name}", nothing)

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(start, range(tasks)):
            pass


def send(api: str, path: str, body: object) -> None:
    """POST JSON."""
    headers = {"Content-Type": "application/json"}
    request = Request(api + path, json.dumps(body).encode(), headers)  # noqa: S310 - loopback
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
        answer.read()


@contextmanager
def worker(program: Program, api: str, name: str, place: Path) -> Generator[int]:
    """A worker for the block; the last release has to be killed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PERAGO_")}
    environment |= {
        "CONDUCTOR_SERVER_URL": api,
        "PYTHONPATH": str(place),
        "BENCH_STAMPS": str(place / "stamps"),
        "PERAGO_WORKSPACE_ROOT": str(place / "workspaces"),
        "PERAGO_LOG_ROOT": str(place / "logs"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
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
        yield process.pid
    finally:
        family = tree(process.pid)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            for pid in family:
                end(pid)
            process.wait()


def end(pid: int) -> None:
    """Kill a process that this run started."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for(stamps: Path, count: int, parent: int) -> float:
    """Wait until so many bodies have run; the moment of the last of them."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if lines(stamps) >= count:
            written = stamps.read_text(encoding="ascii").splitlines()
            return sorted(map(float, written))[count - 1]
        if not Path(f"/proc/{parent}").exists():
            break
        time.sleep(0.02)
    raise RuntimeError(f"{lines(stamps)} of {count} ran; {stamps.with_name('screen').read_text()}")


def lines(stamps: Path) -> int:
    """How many bodies have run."""
    return stamps.read_bytes().count(b"\n")


def tree(parent: int) -> list[int]:
    """A process and all below it."""
    found = [parent]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text(encoding="ascii").split())
    return found


def cpu_seconds(parent: int) -> float:
    """CPU time of the whole family, the dead children of the living included."""
    total = 0
    for pid in tree(parent):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def memory_mb(parent: int) -> tuple[float, float]:
    """Resident memory of the parent, and of the family."""
    sizes: list[float] = []
    for pid in tree(parent):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        sizes.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024)
    return sizes[0], sum(sizes)


if __name__ == "__main__":
    main()
