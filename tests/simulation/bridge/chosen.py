"""Transcripts from the search: schedules that together meet as many named situations as possible.

`python -m tests.simulation.bridge.chosen` looks for better ones and prints the table below anew.
"""

import sys
from collections.abc import Sequence

from tests.simulation.bridge.record import record
from tests.simulation.bridge.steps import Transcript
from tests.simulation.choices import RandomChoices
from tests.simulation.mix import Mix
from tests.simulation.mixes import MIXES
from tests.simulation.sometimes import SOMETIMES

SEEDS = 60  # of each mix; more seeds meet few more situations
STEPS_MAX = 90  # a real step takes some tens of milliseconds
STEPS_MIN = 20  # below, hardly more happened than that the workflow was ended

CHOSEN: Sequence[tuple[str, int]] = (
    ("anew", 32),
    ("canary", 4),
    ("chain", 32),
    ("chain-verbs", 31),
    ("core", 25),
    ("core", 27),
    ("deploy", 48),
    ("everything", 45),
    ("foreign", 5),
    ("foreign", 11),
    ("foreign", 33),
    ("fork", 28),
    ("fork-anew", 42),
    ("gc-age-zero", 31),
    ("gc-default-ages", 20),
    ("gc-default-ages", 47),
    ("head-parent", 0),
    ("lineage", 54),
    ("lineage", 58),
    ("lineage-verbs", 8),
    ("lineage-verbs", 36),
    ("look", 36),
    ("protected", 8),
    ("protected", 51),
    ("reruns", 27),
    ("reset-later", 30),
    ("reset-task", 13),
    ("upgrade", 10),
    ("upgrade-protected", 46),
    ("upgrade-unprotected", 1),
    ("verbs", 20),
    ("verbs", 23),
)


def playable() -> Sequence[Mix]:
    """The mixes that real servers can be made to do: nothing makes a Conductor write a row late.

    What stands on a disk, and what is uploaded from there beside a function, is no server's.
    """
    return [mix for mix in MIXES.values() if not (mix.racy or mix.same_host or mix.checkpoints)]


def from_the_search() -> Sequence[Transcript]:
    """The chosen schedules as they run now; what can no longer be played is an error."""
    found: list[Transcript] = []
    for name, seed in CHOSEN:
        transcript = record(f"{name}, seed {seed}", MIXES[name], RandomChoices(seed))
        assert transcript is not None, f"{name}, seed {seed}: choose again"
        found.append(transcript)
    return found


def choose(count: int) -> Sequence[tuple[str, int]]:
    """One of each mix, then whatever adds most situations, the shortest of equals."""
    left: dict[tuple[str, int], Transcript] = {}
    for mix in playable():
        for seed in range(SEEDS):
            transcript = record("", mix, RandomChoices(seed))
            if transcript is not None and STEPS_MIN <= len(transcript.steps) <= STEPS_MAX:
                left[mix.name, seed] = transcript
    taken: list[tuple[str, int]] = []
    seen = set[str]()

    def take(names: Sequence[tuple[str, int]]) -> int:
        best = max(names, key=lambda name: (len(_new(left[name], seen)), -len(left[name].steps)))
        added = len(_new(left[best], seen))
        seen.update(left.pop(best).seen)
        taken.append(best)
        return added

    for mix in playable():
        take([name for name in left if name[0] == mix.name])
    while len(taken) < count and take(list(left)):
        pass
    return sorted(taken)


def _new(transcript: Transcript, seen: set[str]) -> set[str]:
    return (set(SOMETIMES) & transcript.seen) - seen


if __name__ == "__main__":
    for chosen in choose(32):
        sys.stdout.write(f"    {chosen!r},\n")
