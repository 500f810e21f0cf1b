"""Two clones start their servers at the same moment: they share a cache and nothing else."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SET_OF_SERVERS = ("lakefs", "conductor", "toxiproxy")
STOP_SECONDS = 60
pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(300)]


@contextmanager
def clone() -> Generator[subprocess.Popen[str]]:
    """Start a set of servers as a second clone would: by the tool, in its own process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "perago_servers", "up", *SET_OF_SERVERS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STOP_SECONDS)


def variables_of(process: subprocess.Popen[str]) -> dict[str, str]:
    """Read what the tool prints until all its servers are healthy."""
    assert process.stdout is not None
    variables: dict[str, str] = {}
    for line in process.stdout:
        if line.startswith("# ready"):
            return variables
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            variables[name] = value
    raise AssertionError(f"the tool ended with {process.wait()} before its servers were up")


def run_branches_contract(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the contract on the servers that the variables name."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "lakefs", "tests/contract/test_branches.py"],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_sets_of_servers_pass_the_branches_contract_at_once() -> None:
    with ExitStack() as stack:
        clones = [stack.enter_context(clone()) for _ in range(2)]
        with ThreadPoolExecutor(len(clones)) as threads:
            named = list(threads.map(variables_of, clones))
            runs = list(threads.map(run_branches_contract, named))
    endpoints = [value for one in named for name, value in one.items() if "ENDPOINT" in name]
    assert len(set(endpoints)) == 2 * len(SET_OF_SERVERS)
    for run in runs:
        assert run.returncode == 0, run.stdout + run.stderr
