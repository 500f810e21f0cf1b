"""The in-memory servers do what the real ones do: one random history on both, answer by answer.

30 seconds each in the gate, ten minutes each in `make soak`. A failure prints the shortest list of
operations that still shows the difference, and the seed.
"""

import asyncio
import os
import sys
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.real_lakefs import connected
from tests.integration.fidelity import Run, explore
from tests.integration.fidelity_lakefs import LakeFSMachine, operations
from tests.integration.fidelity_lakefs_sides import LakeFSSides
from tools.servers import LakefsServer


@dataclass(frozen=True, slots=True)
class Length:
    """How long a machine runs, and the least it must have done so that the run proves anything."""

    seconds: float
    operations_min: int


SECONDS = "PERAGO_FIDELITY_SECONDS"
SEED = "PERAGO_FIDELITY_SEED"


@pytest.fixture(
    params=[
        pytest.param(Length(30, 300), id="short"),
        pytest.param(Length(600, 6000), id="full", marks=pytest.mark.soak),
    ]
)
def length(request: pytest.FixtureRequest) -> Length:
    """How long; the environment may say otherwise."""
    given: Length = request.param
    seconds = float(os.environ.get(SECONDS, str(given.seconds)))
    return Length(seconds, round(given.operations_min * seconds / given.seconds))


@contextmanager
def running(length: Length, name: str, names: Collection[str]) -> Generator[tuple[Run, int]]:
    """A run, which in the end has done every rule and enough operations, and says how many."""
    # The gate takes the same way every day; the long run looks where nobody looked before.
    first_seed = int(os.environ.get(SEED, "0"))
    with asyncio.Runner() as runner:
        run = Run(runner, time.monotonic() + length.seconds)
        yield run, first_seed
    counted = ", ".join(f"{each} {times}" for each, times in sorted(run.operations.items()))
    sys.stdout.write(
        f"\n{name}: {run.total} operations, 0 divergences, seed {first_seed} ({counted})\n"
    )
    assert set(run.operations) >= set(names)
    assert run.total >= length.operations_min


@pytest.mark.lakefs
@pytest.mark.timeout(1200)
def test_lakefs_in_memory_answers_as_the_server_does(
    lakefs_server: LakefsServer, tmp_path: Path, length: Length
) -> None:
    with running(length, "lakeFS", operations.names) as (run, first_seed):
        connection = connected(lakefs_server)
        world = run.do(connection.__aenter__())
        sides = LakeFSSides(world, tmp_path)
        explore(lambda: LakeFSMachine(run, sides), run, steps=50, first_seed=first_seed)
        run.do(connection.__aexit__(None, None, None))
