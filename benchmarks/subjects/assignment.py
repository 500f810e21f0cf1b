"""What a subject is told, through the environment, and how it answers. Standard library only."""

import json
import os
import re
import resource
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

_COUNTED = re.compile(r"^api_request_duration_seconds_count\{.*\} (\d+)$", re.MULTILINE)


class Assignment:
    """One measurement; the variables are set by the harness."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self.endpoint = variables["BENCH_ENDPOINT"]
        self.access_key_id = variables["BENCH_KEY"]
        self.secret_access_key = variables["BENCH_SECRET"]
        self.repository = variables["BENCH_REPOSITORY"]
        self.commit = variables["BENCH_COMMIT"]
        self.next_commit = variables.get("BENCH_NEXT_COMMIT", "")
        self.directory = Path(variables["BENCH_DIRECTORY"])
        self.files = int(variables["BENCH_FILES"])
        self.seconds_max = float(variables["BENCH_SECONDS_MAX"])
        self.route = variables.get("BENCH_ROUTE", "auto")
        self.branch = variables.get("BENCH_BRANCH", "bench-staging")


def tell(
    step: str,
    seconds: float,
    *,
    part: float = 1.0,
    requests: int | None = None,
    cpu: float | None = None,
) -> None:
    """Answer; a `part` below 1 says that the time ran out and how far it came."""
    answer = {"step": step, "seconds": seconds, "part": part, "requests": requests, "cpu": cpu}
    print(json.dumps(answer), flush=True)


def answered_requests() -> int:
    """How many API requests the server has answered, by its own count."""
    url = f"{os.environ['BENCH_SERVER']}/metrics"
    with urllib.request.urlopen(url) as answer:  # noqa: S310
        return sum(int(count) for count in _COUNTED.findall(answer.read().decode()))


def processor_seconds() -> float:
    """Processor time of this process, all its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def within(
    assignment: Assignment, step: str, work: Callable[[], object], done: Callable[[], int]
) -> NoReturn:
    """Do the work until the time runs out, tell how far it came, and end the process."""
    used, started = processor_seconds(), time.perf_counter()
    ended = threading.Event()

    def run() -> None:
        work()
        ended.set()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive() and time.perf_counter() - started < assignment.seconds_max:
        worker.join(0.05)
    seconds, cpu = time.perf_counter() - started, processor_seconds() - used
    if ended.is_set():
        tell(step, seconds, cpu=cpu)
        os._exit(0)
    if worker.is_alive():
        tell(step, seconds, part=max(done(), 1) / assignment.files, cpu=cpu)
        os._exit(0)
    os._exit(1)


def files_below(directory: Path) -> int:
    """How many files there are now."""
    return sum(len(files) for _, _, files in os.walk(directory))
