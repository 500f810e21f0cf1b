"""The invariants, numbered, each with the row of docs/guarantees.md that it is.

Stated here once, in words; `monitor.py` checks them. A mix may leave some out by number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.mix import Mix


class Broken(Exception):  # noqa: N818 - what was found, not a mistake of the code that raises it
    """A schedule broke an invariant."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"invariant {number} ({INVARIANTS[number].text}): {what}")
        self.number = number
        self.what = what

    def __reduce__(self) -> tuple[type["Broken"], tuple[int, str]]:
        """An exception is made again from its text alone; this one needs what it was made of."""
        return Broken, (self.number, self.what)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One promise, and where it is made."""

    text: str
    row: str
    of_runs: bool = False
    """It is about begin and finish, so only mixes with runs check it."""


LOST = "accepted publication never lost"
OVERWRITTEN = "another writer's commit never overwritten"
VISIBLE = "nothing of an abandoned or stale attempt visible after acceptance"
ONCE = "at most one publication of a logical execution"
AGAIN = "retry runs the task function again"
PROTECTED = "works on protected branches"

WHOLE = "a target shows a run whole or not at all"
RUN_ONCE = "a run is published at most once, with the head that was decided"
RUN_KEPT = "a run is not lost: before its finish, or once it was finished"

INVARIANTS: Mapping[int, Invariant] = {
    1: Invariant("the commit of an accepted output stays in the target's history", LOST),
    2: Invariant("a commit of others stays in the target's history", OVERWRITTEN),
    3: Invariant("an accepted execution has nothing else of its own on the target", VISIBLE),
    4: Invariant("an execution publishes at most once", ONCE),
    5: Invariant("an accepted result belongs to the accepted tree, run for run", VISIBLE),
    6: Invariant("an accepted result was computed from the params of its row", AGAIN),
    7: Invariant("nothing but its attempt removes the branch of a decision", LOST),
    8: Invariant("no process ends with an error that has no code", PROTECTED),
    9: Invariant("a publication changes nothing outside its prefix", OVERWRITTEN),
    10: Invariant("a row never ends with the result of another execution", VISIBLE),
    11: Invariant("a schedule comes to rest", PROTECTED),
    12: Invariant("a publication is made on the head that it names", OVERWRITTEN),
    13: Invariant("no attempt ends or hands back the row of another", VISIBLE),
    14: Invariant("every unpublished decision keeps its branch", LOST),
    15: Invariant("a decided execution does not run its function to publish again", AGAIN),
    16: Invariant("an attempt that could know that it is stale moves no branch", VISIBLE),
    17: Invariant("under settled only the decided commit is published", ONCE),
    18: Invariant("gc never removes the staging branch of an attempt that counts", LOST),
    19: Invariant("no decision and no mark is removed while its workflow runs", ONCE),
    20: Invariant("a mark goes only after the decisions of its task", VISIBLE),
    21: Invariant("a hand back spends no retry", AGAIN),
    22: Invariant("an attempt that has waited reads its row before it moves a branch", VISIBLE),
    23: Invariant(
        "nothing of a run is on its target but what its finish has published", WHOLE, of_runs=True
    ),
    24: Invariant(
        "a finish changes on the target exactly what its run has changed", WHOLE, of_runs=True
    ),
    25: Invariant("a run is published once, whoever finishes it again", RUN_ONCE, of_runs=True),
    26: Invariant(
        "a finish ends with the commit of its run, which stays in the history",
        RUN_KEPT,
        of_runs=True,
    ),
    27: Invariant(
        "a run branch goes after its finish is recorded or its workflow ended",
        RUN_KEPT,
        of_runs=True,
    ),
    28: Invariant("the attempts of a begin agree on one run and its base", RUN_ONCE, of_runs=True),
    29: Invariant(
        "the attempts of a finish publish the head that was decided", RUN_ONCE, of_runs=True
    ),
    30: Invariant(
        "an attempt that could know that it is stale begins no run", VISIBLE, of_runs=True
    ),
}


def broken(mix: Mix, number: int, what: str) -> None:
    """Raise, unless this mix leaves the invariant out."""
    if number not in mix.without:
        raise Broken(number, what)
