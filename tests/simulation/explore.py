"""Runs schedules: `python -m tests.simulation.explore --mix NAME --schedules N`.

A broken invariant prints the command that replays it, and its story.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from tests.simulation.choices import RandomChoices
from tests.simulation.engine import Engine, Ran
from tests.simulation.mix import Mix
from tests.simulation.mixes import MIXES
from tests.simulation.shrink import replay, shrink
from tests.simulation.transcript import in_words

CHUNK = 250  # schedules that one process takes at a time: some seconds
PROCESSES = 2


@dataclass(slots=True)
class Found:
    """What a search over one mix found."""

    schedules: int = 0
    steps: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])
    broken: list[tuple[int, Ran]] = field(default_factory=list[tuple[int, Ran]])

    def add(self, other: "Found") -> None:
        """Another part of the same search."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.seen.update(other.seen)
        self.broken += other.broken


def explore(mix: Mix, first: int, schedules: int, *, broken_max: int = 1) -> Found:
    """Schedules with the seeds from `first` on, until some are broken."""
    found = Found()
    for seed in range(first, first + schedules):
        ran = Engine(mix, RandomChoices(seed)).run()
        found.schedules += 1
        found.steps += ran.steps
        found.seen.update(ran.seen)
        if ran.broken is not None:
            found.broken.append((seed, ran))
            if len(found.broken) >= broken_max:
                break
    return found


def explore_all(
    schedules: int, *, mixes: Sequence[Mix] = tuple(MIXES.values()), processes: int = PROCESSES
) -> Mapping[str, Found]:
    """So many schedules of each mix, in some processes beside each other.

    A broken schedule is told at once and ends nothing: a run of an hour has to show all of them.
    """
    found = {mix.name: Found() for mix in mixes}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        _add(found, pool, _chunks(mixes, 0, schedules))
    return found


def explore_for(
    seconds: float, *, mixes: Sequence[Mix] = tuple(MIXES.values()), processes: int = PROCESSES
) -> Mapping[str, Found]:
    """As many schedules as fit, the same number of each mix."""
    found = {mix.name: Found() for mix in mixes}
    began, first, longest = time.monotonic(), 0, 0.0
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        while time.monotonic() - began + longest < seconds:
            round_began = time.monotonic()
            _add(found, pool, _chunks(mixes, first, first + CHUNK))
            longest, first = max(longest, time.monotonic() - round_began), first + CHUNK
            told = f"{sum(each.schedules for each in found.values()):,} schedules"
            sys.stdout.write(
                f"{told}, broken: {sum(len(each.broken) for each in found.values())}\n"
            )
            sys.stdout.flush()
    return found


def _chunks(mixes: Sequence[Mix], first: int, last: int) -> Sequence[tuple[Mix, int, int]]:
    starts = range(first, last, CHUNK)
    return [(mix, start, min(CHUNK, last - start)) for start in starts for mix in mixes]


def _add(
    found: Mapping[str, Found], pool: Executor, chunks: Sequence[tuple[Mix, int, int]]
) -> None:
    for (mix, _, _), part in zip(chunks, pool.map(_chunk, chunks), strict=True):
        found[mix.name].add(part)
        for seed, ran in part.broken:
            sys.stdout.write(f"{in_one_line(mix, seed, ran)}\n")
            sys.stdout.flush()


def _chunk(chunk: tuple[Mix, int, int]) -> Found:
    mix, first, schedules = chunk
    return explore(mix, first, schedules, broken_max=schedules)


def in_one_line(mix: Mix, seed: int, ran: Ran) -> str:
    """What broke, and the command that shows it again."""
    return f"{mix.name} {seed}: {ran.broken}; again: {command_of(mix, seed)}"


def command_of(mix: Mix, seed: int) -> str:
    """The command that runs a schedule again and tells its story."""
    return f"python -m tests.simulation.explore --mix {mix.name} --seed {seed} --schedules 1"


def failure_in_words(mix: Mix, seed: int, ran: Ran) -> str:
    """What broke, the command that shows it again, and the shortest story of it."""
    small = shrink(mix, ran)
    told = in_words(replay(mix, small.differences).lines)
    return "\n".join([str(small.broken), f"again: {command_of(mix, seed)}", *told])


def main() -> int:
    """Explore as asked; 1 when something is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mix", action="append", choices=[*MIXES, "all"])
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", type=int, action="append", default=[])
    parser.add_argument("--strict", action="store_true", help="check what is open as well")
    parser.add_argument("--broken", type=int, default=1, help="stop after so many")
    parser.add_argument("--stories", type=int, default=3, help="tell so many of them")
    given = parser.parse_args()
    names = list(MIXES) if given.mix in (None, ["all"]) else given.mix
    failed = False
    for name in names:
        began = time.perf_counter()
        found = explore(_asked(name, given), given.seed, given.schedules, broken_max=given.broken)
        rate = found.schedules / (time.perf_counter() - began)
        kinds = Counter(ran.broken.number for _, ran in found.broken if ran.broken)
        told = f"{name}: {found.schedules} schedules, {found.steps} steps, {rate:.0f} a second"
        sys.stdout.write(f"{told}, broken by invariant: {dict(kinds)}\n")
        for seed, ran in found.broken[: given.stories]:
            sys.stdout.write(f"{failure_in_words(_asked(name, given), seed, ran)}\n")
        failed = failed or bool(found.broken)
    return int(failed)


def _asked(name: str, given: argparse.Namespace) -> Mix:
    """A mix with the invariants that were asked for."""
    mix = MIXES[name]
    left_out = list(given.without) if given.strict else [*given.without, *mix.without]
    return replace(mix, without=frozenset(left_out))


if __name__ == "__main__":
    sys.exit(main())
