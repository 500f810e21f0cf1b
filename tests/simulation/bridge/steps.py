"""A transcript: the steps of one schedule in words, and what was left at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulation.mix import Mix
from tests.simulation.transcript import WIDTH_MAX, WORDS

BEGINS = "begins"
ITS_FUNCTION = "its function"
SLEEPS = "wakes up"
TURNS = "goes on"
TIME = "time passes"
LANDS = "lands late, long after it was sent"
NOBODY = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a process, a server or somebody else did, and what was answered."""

    who: str
    what: str
    how: str = ""
    answer: str = ""
    about: str = ""

    def in_words(self) -> str:
        """One line."""
        how = f" ({self.how})" if self.how else ""
        text = f"{self.who:<9}{WORDS.get(self.what, self.what)}{how}: {self.answer}"
        return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 3]}..."


Outcome = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One schedule as it ran in memory."""

    name: str
    mix: Mix
    steps: Sequence[Step]
    outcome: Outcome
    seen: frozenset[str] = field(default_factory=frozenset[str])


def in_words(steps: Sequence[Step]) -> str:
    """The steps, one a line."""
    return "\n".join(step.in_words() for step in steps)
