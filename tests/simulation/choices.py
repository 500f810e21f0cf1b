"""Where the choices of a schedule come from: chance with a seed, or a list that is replayed.

A schedule is what it does differently from the default: the running process goes on, every call
succeeds. Each difference has an address that says where it happens (`w1:7` is the seventh step of
the first attempt), so that it keeps its meaning when another one is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol, final

# When nothing runs there are few points and many things that may come next.
IDLE_RATE = 0.5
Differences = dict[str, str]
Weighted = Sequence[tuple[str, float]]


class Chooser(Protocol):
    """Answers the two questions of the engine; None means the default."""

    made: Differences

    def move(
        self, point: str, options: Callable[[], Weighted], *, often: bool = False
    ) -> str | None:
        """Which move comes now, instead of the running process going on?"""
        ...

    def fate(self, point: str, options: Callable[[], Weighted]) -> str | None:
        """What becomes of this call, instead of success?"""
        ...


@final
class RandomChoices(Chooser):
    """Chance with a seed; what it chose can be replayed.

    How often anything happens is drawn for each schedule: many schedules with one odd thing, some
    with many.
    """

    def __init__(self, seed: int) -> None:
        self.made: Differences = {}
        # Choices of a test, no secrets.
        self._random = Random(seed)  # noqa: S311
        self._move_rate = self._random.choice((0.01, 0.03, 0.06, 0.12, 0.3))
        self._fate_rate = self._random.choice((0.005, 0.015, 0.03, 0.06))

    def move(
        self, point: str, options: Callable[[], Weighted], *, often: bool = False
    ) -> str | None:
        """Seldom something else than going on."""
        if self._random.random() >= (IDLE_RATE if often else self._move_rate):
            return None
        return self._pick(f"move {point}", options())

    def fate(self, point: str, options: Callable[[], Weighted]) -> str | None:
        """Seldom something else than success."""
        if self._random.random() >= self._fate_rate:
            return None
        return self._pick(f"fate {point}", options())

    def _pick(self, address: str, options: Weighted) -> str | None:
        if not options:
            return None
        names = [name for name, _ in options]
        weights = [weight for _, weight in options]
        chosen: str = self._random.choices(names, weights)[0]
        self.made[address] = chosen
        return chosen


@final
class ReplayedChoices(Chooser):
    """Takes the differences of a list wherever they are possible."""

    def __init__(self, differences: Mapping[str, str]) -> None:
        self.made: Differences = {}
        self._wanted = differences

    def move(
        self, point: str, options: Callable[[], Weighted], *, often: bool = False
    ) -> str | None:
        """What the list says of this point."""
        del often
        return self._take(f"move {point}", options)

    def fate(self, point: str, options: Callable[[], Weighted]) -> str | None:
        """What the list says of this call."""
        return self._take(f"fate {point}", options)

    def _take(self, address: str, options: Callable[[], Weighted]) -> str | None:
        wanted = self._wanted.get(address)
        if wanted is None or wanted not in {name for name, _ in options()}:
            return None
        self.made[address] = wanted
        return wanted
