"""`perago start` beside the last public release: attempts a second, CPU, first completion, memory.

All drain the same kind of queue on one real Conductor, one after the other, in one run, with two
executors: empty tasks without a workspace, over plain HTTP and over TLS, workspaces of 100 small
files on a real lakeFS without and with a round trip, and a queue of 10,000. Servers keep their
files in memory where the machine has such a place, so that nobody's figure is the disk's.
"""

import argparse
import json
import os
import platform
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tools.peer import peer_environment

from benchmarks import render_transfer
from benchmarks.transfer_ground import (
    Ground,
    Seeded,
    ground,
    own_certificate,
    requests_of,
    scratch_place,
    seed,
)
from benchmarks.transfer_rows import KIB, Case
from benchmarks.worker_process import PROCESSES, Family, Program, worker
from benchmarks.worker_queue import EMPTY_MODULE, WORKSPACE_MODULE, branches, ended, fill
from perago_servers import conductor_server

RESULT = Path(__file__).parent / "results" / "worker.json"
IDLE_SECONDS = 10.0
MEMORY = Path("/dev/shm")  # noqa: S108 - servers make private directories in it
WARM_UP_TASKS = 500
NOTHING: dict[str, object] = {}
OURS, LAST_RELEASE = "perago", "perago 0.6.1"
SMALL_FILES = Case("100 x 4 KiB", 100, 4 * KIB, (), ())
ROUND_TRIPS_MS = (0, 20)
KINDS = {"empty": "empty tasks", "workspaces": "changed", "growth": "queued"}
# Attempts by subject and round trip: some ten seconds each.
WORKSPACES = {(OURS, 0): 100, (OURS, 20): 60, (LAST_RELEASE, 0): 12, (LAST_RELEASE, 20): 6}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    tasks: int
    rounds: int
    queued: int


FULL, QUICK = Size(500, 3, 10_000), Size(200, 1, 1_000)


@dataclass(frozen=True, slots=True)
class Queue:
    """Where Conductor answers, and what a worker is told to reach it."""

    api: str
    certificate: Path | None = None  # of a server with TLS, and the authority that workers trust

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a worker; ours and the last release read the same."""
        trusted = {} if self.certificate is None else {"SSL_CERT_FILE": str(self.certificate)}
        return {"CONDUCTOR_SERVER_URL": self.api, **trusted}


@dataclass(frozen=True, slots=True)
class Row:
    """One subject on one case; what a case does not measure is None."""

    case: str
    rtt_ms: int
    subject: str
    attempts: int
    seconds: float
    requests: int | None
    bytes: int
    attempts_per_second: float
    cpu_ms_per_attempt: float
    first_completion_s: float
    rss_mb: float
    parent_rss_mb: float
    executor_rss_mb: float
    idle_cpu_percent: float | None = None
    growth: dict[str, float] | None = None
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A worker on a full queue, after its first completion."""

    subject: str
    family: Family
    workflows: Sequence[str]
    began: float
    first: float
    cpu: float
    ran: int

    def row(self, case: str, attempts: int, last: float) -> Row:
        """What can be said at the end."""
        cpu = self.family.cpu_seconds - self.cpu
        sizes = self.family.memory_mb
        return Row(
            case=case,
            rtt_ms=0,
            subject=self.subject,
            attempts=attempts,
            seconds=round(last - self.first, 2),
            requests=None,
            bytes=0,
            attempts_per_second=round((attempts - 1) / (last - self.first), 1),
            cpu_ms_per_attempt=round(1000 * cpu / (attempts - self.ran), 2),
            first_completion_s=round(self.first - self.began, 2),
            rss_mb=round(sum(sizes), 1),
            parent_rss_mb=sizes[0],
            executor_rss_mb=max(sizes[1:]),
        )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ours", action="store_true", help="leave the last release out")
    parser.add_argument("--only", choices=list(KINDS))
    options = parser.parse_args()
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    programs = [Program(OURS, Path(sys.executable))]
    if not options.ours:
        programs.append(Program(LAST_RELEASE, peer_environment() / "bin" / "python"))
    rows: list[Row] = []
    began = time.monotonic()
    for row in measured(programs, QUICK if options.quick else FULL, options.only):
        print(json.dumps(asdict(row)), flush=True)
        rows.append(row)
        if not options.ours:
            save(rows, kept(options.only), round(time.monotonic() - began))


def kept(only: str | None) -> list[dict[str, object]]:
    """Rows of the last run that this one does not measure again."""
    if only is None:
        return []
    rows: list[dict[str, object]] = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if KINDS[only] not in str(row["case"])]


def save(rows: list[Row], others: list[dict[str, object]], seconds: int) -> None:
    """Write what there is, and the page; a run that is cut short leaves its cases."""
    taken = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "seconds": seconds,
        "load": round(os.getloadavg()[2], 1),
    }
    document = {"taken": taken, "rows": [*(asdict(row) for row in rows), *others]}
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    render_transfer.render(RESULT.with_name("transfer.json"))


def measured(programs: list[Program], size: Size, only: str | None) -> Iterator[Row]:
    """Every case; subjects take turns, so that the machine's moods are everybody's."""
    with scratch_place() as place, conductor(None) as queue:
        if only in {None, "empty"}:
            yield from empty_rows(programs, queue, size)
            with conductor(own_certificate(place)) as queue_over_tls:
                yield from empty_rows(programs, queue_over_tls, size)
        if only in {None, "workspaces"}:
            with ground(ROUND_TRIPS_MS, {"local"}) as servers:
                seeded = seed(servers.servers["local", False], SMALL_FILES, servers.place)
                for rtt_ms in ROUND_TRIPS_MS:
                    for program in programs:
                        yield workspace_tasks(program, queue, servers, seeded, rtt_ms)
        if only in {None, "growth"}:
            yield growth(programs[0], queue, size.queued)


@contextmanager
def conductor(certificate: Path | None) -> Generator[Queue]:
    """A Conductor of its own; with a certificate it speaks TLS itself."""
    with conductor_server(certificate=certificate) as server:
        yield Queue(server.api_url, certificate)


def empty_rows(programs: list[Program], queue: Queue, size: Size) -> Iterator[Row]:
    """The medians of some rounds of empty tasks."""
    # Whoever came first would share the machine with a server that still compiles itself.
    empty_tasks(programs[-1], queue, WARM_UP_TASKS, idle=False)
    rounds = [
        [empty_tasks(each, queue, size.tasks, idle=number == 0) for each in programs]
        for number in range(size.rounds)
    ]
    yield from (middle(list(each)) for each in zip(*rounds, strict=True))


def middle(rounds: list[Row]) -> Row:
    """The medians of some rounds; idleness was measured in the first."""

    def median(name: str) -> float:
        return round(float(statistics.median(getattr(row, name) for row in rounds)), 2)

    return replace(
        rounds[0],
        seconds=median("seconds"),
        attempts_per_second=median("attempts_per_second"),
        cpu_ms_per_attempt=median("cpu_ms_per_attempt"),
        first_completion_s=median("first_completion_s"),
    )


def empty_tasks(program: Program, queue: Queue, tasks: int, *, idle: bool) -> Row:
    """Drain a queue of empty tasks, then do nothing."""
    case = f"{tasks} empty tasks, -j {PROCESSES}"
    with started(program, queue, EMPTY_MODULE, [NOTHING] * tasks, {}) as run:
        last = run.family.wait_for(tasks)
        row = run.row(case, tasks, last)
        if idle:
            time.sleep(2)
            before = run.family.cpu_seconds
            time.sleep(IDLE_SECONDS)
            spent = run.family.cpu_seconds - before
            row = replace(row, idle_cpu_percent=round(100 * spent / IDLE_SECONDS, 2))
    return replace(row, tls=queue.certificate is not None)


def workspace_tasks(
    program: Program, queue: Queue, servers: Ground, seeded: Seeded, rtt_ms: int
) -> Row:
    """Each attempt has its own branch of one commit, and changes one file in a hundred."""
    count = WORKSPACES[program.subject, rtt_ms]
    inputs = branches(seeded, count, f"b{secrets.token_hex(3)}")
    environment = {
        "LAKECTL_SERVER_ENDPOINT_URL": servers.endpoints["local", False, rtt_ms],
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": seeded.server.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": seeded.server.secret_access_key,
    }
    before = requests_of(seeded.server)
    with started(program, queue, WORKSPACE_MODULE, inputs, environment) as run:
        run.family.wait_for(count)
        end = ended(queue.api, run.workflows)
        row = run.row(f"{SMALL_FILES.name}, one changed, -j {PROCESSES}", count, end.last)
    seconds = end.last - end.began
    return replace(
        row,
        rtt_ms=rtt_ms,
        seconds=round(seconds, 2),
        attempts_per_second=round(count / seconds, 2),
        first_completion_s=round(end.first - run.began, 2),
        requests=round((requests_of(seeded.server) - before) / count),
        bytes=SMALL_FILES.bytes,
    )


def growth(program: Program, queue: Queue, queued: int) -> Row:
    """Whether the last tenth of a long queue costs what the first did."""
    tenth = queued // 10
    with started(program, queue, EMPTY_MODULE, [NOTHING] * queued, {}) as run:
        run.family.wait_for(tenth)
        early = run.family.memory_mb[0]
        last = run.family.wait_for(queued)
        row = run.row(f"{queued:,} queued, -j {PROCESSES}", queued, last)
        moments = run.family.moments()
    first_rate = tenth / (moments[tenth] - moments[0])
    last_rate = tenth / (moments[-1] - moments[-tenth - 1])
    facts = {"first_tenth_per_second": first_rate, "last_tenth_per_second": last_rate}
    facts |= {"early_parent_rss_mb": early, "late_parent_rss_mb": row.parent_rss_mb}
    return replace(row, growth={name: round(value, 1) for name, value in facts.items()})


@contextmanager
def started(
    program: Program,
    queue: Queue,
    module: str,
    inputs: Sequence[object],
    servers: Mapping[str, str],
) -> Generator[Run]:
    """A full queue and a worker on it, for a block that begins with its first completion."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        name = f"bench_{secrets.token_hex(6)}"
        (place / f"{name}.py").write_text(module.format(name=name), encoding="utf-8")
        workflows = fill(queue.api, name, inputs)
        began = time.time()
        with worker(program, name, place, {**queue.environment, **servers}) as family:
            first = family.wait_for(1)
            cpu, ran = family.cpu_seconds, family.ran
            yield Run(program.subject, family, workflows, began, first, cpu=cpu, ran=ran)


if __name__ == "__main__":
    main()
