"""The search finds every planted bug: what it would miss, it would miss in our own code as well."""

import pytest
from tests.simulation.plant import Plant
from tests.simulation.planted import PLANTS, hunt

pytestmark = pytest.mark.simulation

SECONDS_MAX = 120.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant: Plant) -> None:
    found = hunt(plant, seconds_max=SECONDS_MAX)
    assert found.invariant is not None, f"{found.schedules} schedules, nothing is broken"


def test_there_are_thirty_planted_bugs() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 30
