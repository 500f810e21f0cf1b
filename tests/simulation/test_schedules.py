"""Every mix, some thousands of schedules: no invariant breaks. A failure prints how to see it."""

from collections import Counter
from collections.abc import Mapping
from copy import copy

import pytest
from tests.simulation.choices import RandomChoices, ReplayedChoices
from tests.simulation.engine import Engine
from tests.simulation.exhaustive import PAIR, explore_exhaustively
from tests.simulation.explore import Found, explore_all, failure_in_words
from tests.simulation.invariants import Broken
from tests.simulation.mixes import MIXES
from tests.simulation.sometimes import SOMETIMES, never_met

pytestmark = pytest.mark.simulation

GATE_SCHEDULES = 900  # of each mix: more than 20,000 in all
SOAK_SCHEDULES = 44_000  # of each mix: more than 10^6 in all
GC_SCHEDULES = 100_000
GC_MIXES = ("gc-default-ages", "gc-age-zero")
# The end of w2 lands in the row that an operator has run again, between the last question of its
# new holder w4 and the merge of w4. Conductor compares nothing, so nobody can know. Found at seed
# 10352 of the mix, as a breach of invariant 3.
A_LATE_END_AFTER_A_RERUN = {
    "move w1:4.0": "stands still",
    "move idle:3": "goes on: w1",
    "fate w1:8": "writes nothing",
    "fate w2:16": "lands late",
    "move idle:5": "operator: rerun",
    "move w3:1.0": "operator: terminate",
    "move w3:1.1": "operator: rerun with another input",
    "move w4:19.0": "a late request lands",
}


@pytest.fixture(scope="module")
def found() -> Mapping[str, Found]:
    """Every mix, explored once for all tests of this file."""
    return explore_all(GATE_SCHEDULES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MIXES)
def test_no_schedule_of_a_mix_breaks_an_invariant(found: Mapping[str, Found], name: str) -> None:
    broken = found[name].broken
    assert not broken, failure_in_words(MIXES[name], *broken[0])
    assert found[name].schedules == GATE_SCHEDULES


def test_every_situation_came_up(found: Mapping[str, Found]) -> None:
    seen = Counter[str]()
    for each in found.values():
        seen.update(each.seen)
    assert never_met(seen) == []
    assert len(SOMETIMES) >= 40


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_schedule_breaks_an_invariant_in_a_million() -> None:
    for name, each in explore_all(SOAK_SCHEDULES).items():
        assert not each.broken, failure_in_words(MIXES[name], *each.broken[0])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_gc_never_takes_the_branch_of_a_decision() -> None:
    mixes = [MIXES[name] for name in GC_MIXES]
    for name, each in explore_all(GC_SCHEDULES // len(mixes), mixes=mixes).items():
        assert not each.broken, failure_in_words(MIXES[name], *each.broken[0])


def test_an_end_that_lands_late_is_not_held_against_who_holds_the_row_by_then() -> None:
    ran = Engine(MIXES["reruns"], ReplayedChoices(A_LATE_END_AFTER_A_RERUN)).run()
    assert ran.broken is None
    assert ran.differences == A_LATE_END_AFTER_A_RERUN
    assert "an end met a row that changed hands after the last look" in ran.seen


def test_what_another_process_found_is_told_by_this_one() -> None:
    found = copy(Broken(3, "somewhere"))  # as a process sends it to another
    assert (found.number, found.what, str(found)) == (3, "somewhere", str(Broken(3, "somewhere")))


@pytest.mark.parametrize("seed", range(40))
def test_a_schedule_is_the_same_when_it_is_replayed(seed: int) -> None:
    mix = MIXES["gc-default-ages"]
    first = Engine(mix, RandomChoices(seed), tells=True).run()
    again = Engine(mix, ReplayedChoices(first.differences), tells=True).run()
    assert again.lines == first.lines


@pytest.mark.timeout(300)
def test_every_schedule_of_two_attempts_with_a_switch_and_a_fault() -> None:
    explored = explore_exhaustively(switches=1, faults=1)
    assert not explored.broken, failure_in_words(PAIR, 0, explored.broken[0])
    assert explored.schedules > 1_000


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_schedule_of_two_attempts_with_two_switches_and_two_faults() -> None:
    explored = explore_exhaustively(switches=2, faults=2)
    assert not explored.broken, failure_in_words(PAIR, 0, explored.broken[0])
