"""Schedules written by hand, in the words of the engine: who, before or at which call, what.

`w1 before branches.merge` is the moment at which the first attempt is about to merge, and takes a
move; `w1 at branches.merge` is that call, and takes what becomes of it; `idle` is the next moment
at which nothing runs. The parts come up in their order, everything else goes as it would by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from tests.simulation.bridge.record import Recorder, recorded
from tests.simulation.bridge.steps import Transcript
from tests.simulation.choices import Chooser, Differences, Weighted
from tests.simulation.mix import Mix
from tests.simulation.steering import BodyRun, PortCall, Stop

IDLE = "idle"
FUNCTION = "its function"
Part = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Script:
    """One schedule by hand: what it shows, and what it does differently from the quiet run."""

    name: str
    mix: Mix
    parts: Sequence[Part]
    end: str = ""
    """What it has to come to, where that is the point of it."""


@final
class Scripted(Chooser):
    """Takes the next part of a script where its moment comes up."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.made: Differences = {}
        self.engine: Recorder | None = None
        self.left = list(parts)

    def move(
        self, point: str, options: Callable[[], Weighted], *, often: bool = False
    ) -> str | None:
        """What the script does here instead of going on."""
        current = self.engine.current if self.engine is not None else None
        if often or current is None:
            return self._take(IDLE, f"move {point}", options)
        return self._take(f"{current.name} before {_name(current.stop)}", f"move {point}", options)

    def fate(self, point: str, options: Callable[[], Weighted]) -> str | None:
        """What becomes of this call in the script."""
        assert self.engine is not None, "the engine is given before it runs"
        current = self.engine.current
        assert current is not None, "only a running process asks"
        return self._take(f"{current.name} at {_name(current.stop)}", f"fate {point}", options)

    def _take(self, moment: str, address: str, options: Callable[[], Weighted]) -> str | None:
        if not self.left or self.left[0][0] != moment:
            return None
        _, wanted = self.left.pop(0)
        possible = {name for name, _ in options()}
        assert wanted in possible, f"{moment}: {wanted} is none of {sorted(possible)}"
        self.made[address] = wanted
        return wanted


def _name(stop: Stop) -> str:
    match stop:
        case PortCall():
            return stop.operation
        case BodyRun():
            return FUNCTION
        case _:
            return ""


def played(script: Script) -> Transcript:
    """The script as it runs in memory; every part of it has to come up."""
    chooser = Scripted(script.parts)
    recorder = Recorder(script.mix, chooser)
    chooser.engine = recorder
    transcript = recorded(script.name, recorder)
    assert not chooser.left, f"{script.name}: never came up: {chooser.left}"
    assert transcript is not None, f"{script.name}: real servers cannot be made to do this"
    end = transcript.outcome["end"]
    assert script.end in {"", end}, f"{script.name}: ended as {end}"
    return transcript
