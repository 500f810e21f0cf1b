"""Every mix, some thousands of schedules: no invariant breaks. A failure prints how to see it."""

from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import replace

import pytest
from tests.simulation.choices import RandomChoices, ReplayedChoices
from tests.simulation.engine import Engine
from tests.simulation.exhaustive import PAIR, explore_exhaustively
from tests.simulation.explore import Found, explore_all, failure_in_words
from tests.simulation.invariants import Broken
from tests.simulation.mixes import MIXES
from tests.simulation.planted import PLANTS, planted
from tests.simulation.sometimes import SOMETIMES, never_met

pytestmark = pytest.mark.simulation

GATE_SCHEDULES = 520  # of each mix: more than 20,000 in all
SOAK_SCHEDULES = 25_100  # of each mix: a million in all
MILLION = 1_000_000
GC_SCHEDULES = 100_000
GC_MIXES = ("gc-default-ages", "gc-age-zero")
# Where promises end: moments that nobody can see, met once in some 100,000 schedules. Each is what
# the search had shrunk, with the mix, and a situation without which it would not be that moment.
ENDS_OF_PROMISES = {
    "the end of w2 lands between the last question of w4 and its merge": (
        "reruns",
        "an end met a row that changed hands after the last look",
        {
            "move w1:4.0": "stands still",
            "move idle:3": "goes on: w1",
            "fate w1:8": "writes nothing",
            "fate w2:16": "lands late",
            "move idle:5": "operator: rerun",
            "move w3:1.0": "operator: terminate",
            "move w3:1.1": "operator: rerun with another input",
            "move w4:19.0": "a late request lands",
        },
    ),
    "the end of a reading attempt lands in the row that was run again": (
        "look",
        "an end met a row that changed hands after the last look",
        {
            "move idle:1": "operator: terminate",
            "move idle:2": "operator: rerun with another input",
            "fate w1:7": "refused",
            "fate w1:10": "lands late",
            "move idle:5": "operator: rerun with another input",
            "move idle:6": "a late request lands",
        },
    ),
    "gc1 removes the marks of an old workflow while an operator runs a retry of it again": (
        "everything",
        "operator: rerun",
        {
            "move w1:3.0": "stands still",
            "move w1:3.1": "stands still",
            "move w1:3.2": "gc begins",
            "move gc1:0.0": "eight days pass",
            "move gc1:6.0": "operator: rerun",
        },
    ),
    "w2 polls a decided row, and an operator resets the task before it looks": (
        "reset-task",
        "reset-task ran",
        {
            "fate w1:19": "crash before",
            "move w2:6.0": "reset-task begins",
            "move reset1:0.0": "operator: terminate",
            "move reset1:11.0": "goes on: w2",
        },
    ),
    "the deletion of gc1 lands when w2 has decided and looked": (
        "gc-default-ages",
        "branches.delete landed late, its sender dead",
        {
            "move w1:0.0": "a worker polls",
            "move w2:10.0": "stands still",
            "move idle:2": "gc begins",
            "move gc1:3.0": "the lease expires of w2",
            "fate gc1:10": "lands late",
            "move w3:1.0": "the lease expires of w3",
            "move w4:0.0": "operator: terminate",
        },
    ),
    "w1 decides after gc1 has taken its branch, and dies": (
        "gc-age-zero",
        "queue.read_workflow: crash before",
        {
            "move w1:13.0": "stands still",
            "move w2:2.0": "the lease expires of w2",
            "move w3:1.0": "gc begins",
            "move w3:6.0": "operator: terminate",
            "fate w1:16": "crash before",
        },
    ),
    "w1 merges after w4, for other params, has changed nothing": (
        "everything",
        "a merge landed after a retry for other params had changed nothing",
        {
            "move w1:16.0": "stands still",
            "move idle:2": "inputs resolve to other params",
            "move w2:11.0": "stands still",
            "move w3:0.0": "a worker polls",
            "fate w4:13": "writes nothing",
        },
    ),
    "gc1 dies before it puts back what w1 decided meanwhile": (
        "everything",
        "commits.read: crash before",
        {
            "move w1:12.0": "operator: terminate",
            "move w1:13.0": "gc begins",
            "move gc1:4.0": "eight days pass",
            "move gc1:9.0": "goes on: w1",
            "fate gc1:12": "crash before",
        },
    ),
    "gc1 puts a branch back, and w2 finishes its decision before gc1 has ended": (
        "chain-verbs",
        "resumed a decision",
        {
            "move idle:1": "operator: pause",
            "move w1:12.0": "stands still",
            "move idle:4": "gc begins",
            "move gc1:6.0": "the lease expires of w1",
            "move gc1:9.0": "goes on: w1",
            "move gc1:10.0": "a worker polls",
            "move w2:2.0": "goes on: gc1",
            "move gc1:14.0": "goes on: w2",
        },
    ),
    "w3 begins a run after gc2 has removed the marks of the terminated workflow": (
        "run-gc-age-zero",
        "a stale attempt created a run branch in its last step",
        {
            "move w1:1.0": "gc begins",
            "move w1:3.0": "the lease expires of w1",
            "move w1:7.0": "a worker polls",
            "move w2:9.0": "gc begins",
            "move gc2:1.0": "others: an empty commit",
            "move gc2:2.0": "operator: terminate",
            "move gc2:7.0": "goes on: w1",
            "move gc2:7.1": "operator: retry",
            "move gc2:9.0": "goes on: w2",
            "move gc2:9.1": "a worker polls",
            "move w3:7.0": "goes on: gc2",
            "move gc2:10.0": "goes on: w3",
            "move w3:11.0": "stands still",
        },
    ),
    "a creation of w1 and a merge of w2 land after w4 has finished the run": (
        "run",
        "a merge landed on the branch of a run that was removed",
        {"fate w1:10": "lands late", "fate w2:17": "lands late"},
    ),
    "w6 decides anew after gc2 has removed what w5 published, and adopts that": (
        "run-gc-age-zero",
        "published: adopted",
        {
            "fate w3:1": "refused",
            "move w4:10.0": "stands still",
            "move w5:10.0": "gc begins",
            "move w5:21.0": "gc begins",
            "move gc2:4.0": "operator: terminate",
            "move gc2:7.0": "operator: retry",
            "move gc2:19.0": "goes on: w5",
            "move gc2:19.1": "a worker polls",
        },
    ),
    "w3 goes on with the run that it began before gc2 removed the marks, beside w4": (
        "run-gc-age-zero",
        "a stale attempt created a run branch in its last step",
        {
            "move w1:1.0": "gc begins",
            "move w1:3.0": "the lease expires of w1",
            "move w1:7.0": "a worker polls",
            "move w2:9.0": "gc begins",
            "move gc2:1.0": "others: an empty commit",
            "move gc2:2.0": "operator: terminate",
            "move gc2:7.0": "goes on: w1",
            "move gc2:7.1": "operator: retry",
            "move gc2:9.0": "goes on: w2",
            "move gc2:9.1": "a worker polls",
            "move w3:7.0": "goes on: gc2",
            "move gc2:10.0": "goes on: w3",
            "move w3:11.0": "stands still",
            "move w4:4.0": "goes on: w3",
        },
    ),
    "w7 begins another run after gc2 has removed the first and its marks": (
        "run-gc-age-zero",
        "a run began anew after it was given up",
        {
            "move w1:10.0": "stands still",
            "move w2:5.0": "others: a commit outside the prefix",
            "move w2:7.0": "gc begins",
            "move w2:10.0": "stands still",
            "move w3:0.0": "a worker polls",
            "move w4:0.0": "a worker polls",
            "move w5:9.0": "gc begins",
            "move gc2:1.0": "the lease expires of w5",
            "move gc2:5.0": "a worker polls",
            "move w6:10.0": "operator: terminate",
            "move idle:6": "operator: retry",
        },
    ),
    "w3 publishes for another input after abandon has removed what w2 had published": (
        "run-verbs",
        "abandon removed a run",
        {
            "move w2:19.0": "stands still",
            "move idle:4": "operator: terminate",
            "move idle:5": "abandon begins",
            "move idle:6": "operator: rerun with another input",
        },
    ),
    "w2 begins a run again between its last question and its request": (
        "run",
        "a stale attempt created a run branch in its last step",
        {
            "move w1:2.0": "every open row is queued again",
            "move w1:3.0": "a worker polls",
            "move w2:10.0": "the lease expires of w2",
        },
    ),
    "an attempt dies with a row that a retry had made good and a rerun handed out": (
        "run-verbs",
        "an attempt died with a row that a retry had made good",
        {
            "move w1:7.0": "stands still",
            "fate w2:5": "crash before",
            "move idle:4": "operator: pause",
            "fate w3:4": "crash before",
            "move w5:9.0": "the lease expires of w5",
            "move w7:9.0": "the lease expires of w7",
            "move idle:16": "operator: rerun",
        },
    ),
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
    found = explore_all(SOAK_SCHEDULES)
    for name, each in found.items():
        assert not each.broken, failure_in_words(MIXES[name], *each.broken[0])
    assert sum(each.schedules for each in found.values()) >= MILLION


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_gc_never_takes_the_branch_of_a_decision() -> None:
    mixes = [MIXES[name] for name in GC_MIXES]
    for name, each in explore_all(GC_SCHEDULES // len(mixes), mixes=mixes).items():
        assert not each.broken, failure_in_words(MIXES[name], *each.broken[0])


@pytest.mark.parametrize("moment", ENDS_OF_PROMISES)
def test_what_no_worker_could_see_breaks_no_rule(moment: str) -> None:
    mix, situation, differences = ENDS_OF_PROMISES[moment]
    ran = Engine(MIXES[mix], ReplayedChoices(differences)).run()
    assert ran.broken is None
    assert ran.differences == differences
    assert situation in ran.seen


def test_a_merge_that_was_asked_for_after_its_run_was_removed_is_found() -> None:
    """The neighbour of the late merge: its sender could know, and a fence that is gone lets it."""
    fence = next(each for each in PLANTS if each.name == "the fence before the effect is dropped")
    mix = replace(MIXES["run"], without=frozenset({16}))  # the first that would find it
    differences = {
        "fate w1:10": "lands late",
        "move w2:14.0": "stands still",
        "move idle:7": "a late request lands",
    }
    with planted(fence):
        ran = Engine(mix, ReplayedChoices(differences)).run()
    assert ran.differences == differences
    assert ran.broken is not None
    assert ran.broken.number == 4


def test_a_stale_attempt_that_begins_a_run_of_its_own_without_gc_is_found() -> None:
    """The neighbour of the removed marks: nothing has removed any, so all agree on one run."""
    own = next(each for each in PLANTS if each.name.startswith("every attempt of begin begins"))
    moment = "w2 begins a run again between its last question and its request"
    mix, situation, differences = ENDS_OF_PROMISES[moment]
    with planted(own):
        ran = Engine(MIXES[mix], ReplayedChoices(differences)).run()
    assert situation in ran.seen
    assert ran.broken is not None
    assert ran.broken.number == 28


def test_what_another_process_found_is_reported_by_this_one() -> None:
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
