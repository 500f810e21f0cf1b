"""Every mix, some thousands of schedules: no invariant breaks. A failure prints how to see it."""

import pytest
from tests.simulation.choices import RandomChoices, ReplayedChoices
from tests.simulation.engine import Engine
from tests.simulation.explore import explore, failure_in_words
from tests.simulation.mixes import MIXES

pytestmark = pytest.mark.simulation

GATE_SCHEDULES = 400
SOAK_SCHEDULES = 100_000
GC_MIXES = ("gc-default-ages", "gc-age-zero")


@pytest.mark.parametrize("name", MIXES)
def test_no_schedule_of_a_mix_breaks_an_invariant(name: str) -> None:
    found = explore(MIXES[name], 0, GATE_SCHEDULES)
    assert not found.broken, failure_in_words(MIXES[name], *found.broken[0])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", GC_MIXES)
def test_gc_never_takes_the_branch_of_a_decision(name: str) -> None:
    found = explore(MIXES[name], 0, SOAK_SCHEDULES // len(GC_MIXES))
    assert not found.broken, failure_in_words(MIXES[name], *found.broken[0])


@pytest.mark.parametrize("seed", range(40))
def test_a_schedule_is_the_same_when_it_is_replayed(seed: int) -> None:
    mix = MIXES["gc-default-ages"]
    first = Engine(mix, RandomChoices(seed), tells=True).run()
    again = Engine(mix, ReplayedChoices(first.differences), tells=True).run()
    assert again.lines == first.lines
