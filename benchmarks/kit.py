"""What a test with the kit costs: one environment, a long wait, and the kit's own unit suite."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TaskFailed, WorkspaceSpec, task
from perago.testing import PeragoEnvironment

ROUNDS = 200
VIRTUAL_SECONDS = 10_000
SUITE = ("-q", "-n", "2", "tests/unit/testing")


class Nothing(BaseModel):
    """No parameters, no result."""


@task(name="clean", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
def clean(workspace: Path, params: Nothing) -> Nothing:
    (workspace / "out.txt").write_text("out")
    return params


@task(
    name="failing",
    owner_email="data@example.com",
    controls=TaskControls(retry=RetryPolicy(count=10, delay_seconds=VIRTUAL_SECONDS // 10)),
)
def failing(params: Nothing) -> Nothing:
    del params
    raise TaskFailed("again")


async def one_environment() -> float:
    with PeragoEnvironment() as env:
        await env.run(clean, await env.repository("repo", {"data/in.txt": "in"}))
        return env.seconds


async def long_wait() -> float:
    with PeragoEnvironment() as env:
        await env.run(failing)
        return env.seconds


def costs(clock: Callable[[], float], rounds: int) -> list[float]:
    """Milliseconds of one environment, several times."""
    found: list[float] = []
    for _ in range(rounds):
        start = clock()
        asyncio.run(one_environment())
        found.append((clock() - start) * 1000)
    return found


def main() -> None:
    costs(perf_counter, 20)
    for name, clock in (("wall", perf_counter), ("processor", process_time)):
        found = costs(clock, ROUNDS)
        print(f"one environment, {name}: median {median(found):.1f} ms, least {min(found):.1f} ms")
    start = perf_counter()
    seconds = asyncio.run(long_wait())
    print(f"{seconds:.0f} virtual seconds: {(perf_counter() - start) * 1000:.0f} ms")
    start = perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *SUITE], capture_output=True, text=True, check=False
    )
    passed = re.search(r"(\d+) passed", ran.stdout)
    print(f"unit suite: {passed[1] if passed else 0} passed in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
