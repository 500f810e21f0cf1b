"""The in-memory servers do what the real ones do: one random history on both, answer by answer.

30 seconds each in the gate, ten minutes each in `make soak`. A failure prints the shortest list of
operations that still shows the difference, and the seed.
"""

import asyncio
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.real_conductor import connected as connected_conductor
from tests.contract.real_lakefs import connected as connected_lakefs
from tests.integration.fidelity import Run, explore
from tests.integration.fidelity_conductor import ConductorMachine
from tests.integration.fidelity_conductor import operations as conductor_operations
from tests.integration.fidelity_conductor_side import Side as ConductorSide
from tests.integration.fidelity_lakefs import LakeFSMachine
from tests.integration.fidelity_lakefs import operations as lakefs_operations
from tests.integration.fidelity_lakefs_sides import LakeFSSides

from perago.testing.contract.conductor_under_test import MemoryConductorUnderTest
from perago_servers import ConductorServer, LakefsServer


@dataclass(frozen=True, slots=True)
class Length:
    """How long a machine runs, and the least it must have done so that the run proves anything."""

    seconds: float
    operations_min: int


SECONDS = "PERAGO_FIDELITY_SECONDS"
SEED = "PERAGO_FIDELITY_SEED"
LONGER_FACTOR = 4


@pytest.fixture(
    params=[
        pytest.param(Length(30, 300), id="short"),
        pytest.param(Length(600, 3000), id="full", marks=pytest.mark.soak),
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
    first_seed = int(os.environ.get(SEED, "0"))

    def is_enough(done: Counter[str]) -> bool:
        return set(done) >= set(names) and done.total() >= length.operations_min

    with asyncio.Runner() as runner:
        begun = time.monotonic()
        run = Run(runner, begun + length.seconds, begun + LONGER_FACTOR * length.seconds, is_enough)
        divergences = 1
        try:
            yield run, first_seed
            divergences = 0
        finally:
            counted = ", ".join(f"{each} {times}" for each, times in sorted(run.operations.items()))
            sys.stdout.write(
                f"\n{name}: {run.total} operations, {divergences} divergences, "
                f"seed {first_seed} ({counted})\n"
            )
    assert is_enough(run.operations), set(names) - set(run.operations)


@pytest.mark.lakefs
@pytest.mark.timeout(1200)
def test_lakefs_in_memory_answers_as_the_server_does(
    lakefs_server: LakefsServer, tmp_path: Path, length: Length
) -> None:
    with running(length, "lakeFS", lakefs_operations.names) as (run, first_seed):
        connection = connected_lakefs(lakefs_server)
        harness = run.do(connection.__aenter__())
        sides = LakeFSSides(harness, tmp_path)
        explore(lambda: LakeFSMachine(run, sides), run, steps=50, first_seed=first_seed)
        run.do(connection.__aexit__(None, None, None))


@pytest.mark.conductor
@pytest.mark.timeout(1200)
def test_conductor_in_memory_answers_as_the_server_does(
    conductor_workers_server: ConductorServer, length: Length
) -> None:
    with running(length, "Conductor", conductor_operations.names) as (run, first_seed):
        connection = connected_conductor(conductor_workers_server)
        harness = run.do(connection.__aenter__())

        def machine() -> ConductorMachine:
            stem = f"fidelity_{secrets.token_hex(6)}"
            fake = ConductorSide(MemoryConductorUnderTest(), stem)
            return ConductorMachine(run, fake, ConductorSide(harness, stem, ahead=fake))

        explore(machine, run, steps=40, first_seed=first_seed)
        run.do(connection.__aexit__(None, None, None))
