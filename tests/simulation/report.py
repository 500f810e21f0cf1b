"""Runs the whole search once and writes what it counted into the documentation.

`python -m tests.simulation.report` explores, counts and writes; `--render` only writes the pages
again from the counts of the last run. A test keeps pages, counts and code together.

A broken schedule ends nothing. Each is printed when it is found and kept in `build`, with the
command that runs it again, and the run exits with 1. The page names it, and a test waits until the
foot of the page says what became of it.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.bridge.by_hand import BY_HAND
from tests.simulation.bridge.chosen import CHOSEN
from tests.simulation.bridge.from_the_model import FROM_THE_MODEL
from tests.simulation.exhaustive import explore_exhaustively
from tests.simulation.explore import PROCESSES, Found, explore_all, explore_for, in_one_line
from tests.simulation.guarantees import ROWS, RUN_ROWS, guarantee_page
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mix import Kind
from tests.simulation.mixes import MIXES
from tests.simulation.plant import Plant
from tests.simulation.planted import PLANTS, hunt
from tests.simulation.sometimes import SOMETIMES

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).parent / "counts.json"
# A run of a million schedules takes an hour. A shorter one leaves its counts as they are, and the
# page says of which commit each of the two is.
COUNTS_OF_SOAK = Path(__file__).parent / "counts_of_soak.json"
BROKEN = ROOT / "build" / "broken_schedules.txt"
PAGE = ROOT / "docs" / "simulation.md"
GUARANTEES_PAGE = ROOT / "docs" / "guarantees.md"
HEAD = Path(__file__).parent / "page_head.md"
BRIDGE = Path(__file__).parent / "page_bridge.md"
FOOT = Path(__file__).parent / "page_foot.md"
RAREST = 12


@dataclass(frozen=True, slots=True)
class CountsOfSoak:
    """What the last long run of the mixes counted."""

    commit: str
    schedules: Mapping[str, int]
    steps: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """What one run of the whole search counted, and the last commit that had changed `src`."""

    commit: str
    schedules: Mapping[str, int]
    steps: Mapping[str, int]
    seen: Mapping[str, int]
    planted: Mapping[str, tuple[int, int, float]]
    """By name: the invariant that it broke, after how many schedules, in how many seconds."""
    exhaustive: Sequence[Mapping[str, int]]
    broken: Sequence[str] = ()
    """Mix and seed of what broke an invariant; the page says what became of each."""


def count(schedules: int, bounds: Iterable[tuple[int, int]], minutes: float) -> Counts:
    """Explore every mix, every bound and every planted bug."""
    commit = _last_change_of_the_source()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        exhaustive = pool.map(_exhaustively, bounds)
        planted = pool.map(_hunted, PLANTS)
        by_bound, by_plant = list(exhaustive), dict(planted)
    found = explore_for(60 * minutes) if minutes else explore_all(schedules)
    keep_broken(found, BROKEN)
    seen = Counter[str]()
    for each in found.values():
        seen.update(each.seen)
    return Counts(
        commit,
        {name: each.schedules for name, each in found.items()},
        {name: each.steps for name, each in found.items()},
        {name: seen[name] for name in SOMETIMES},
        by_plant,
        by_bound,
        [f"{name} {seed}" for name, each in found.items() for seed, _ in each.broken],
    )


def keep_broken(found: Mapping[str, Found], path: Path) -> None:
    """Write a line for every broken schedule; without one, the file is empty."""
    lines = [
        f"{in_one_line(MIXES[name], seed, ran)}\n"
        for name, each in found.items()
        for seed, ran in each.broken
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def _exhaustively(bound: tuple[int, int]) -> Mapping[str, int]:
    switches, faults = bound
    explored = explore_exhaustively(switches=switches, faults=faults)
    assert not explored.broken, f"{switches} switches and {faults} faults break an invariant"
    facts = {"schedules": explored.schedules, "states": len(explored.states)}
    return {"switches": switches, "faults": faults, **facts}


def _hunted(plant: Plant) -> tuple[str, tuple[int, int, float]]:
    hunted = hunt(plant)
    return plant.name, (hunted.invariant or 0, hunted.schedules, round(hunted.seconds, 1))


def _last_change_of_the_source() -> str:
    """The commit whose code runs; it stays the same when this run's own commit is rebased."""
    changed = ["git", "status", "--porcelain", "--", "src"]
    assert not _answer(changed), "commit src first: the page says which commit was explored"
    return _answer(["git", "log", "-1", "--format=%h", "--", "src"])


def _answer(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def read_counts_of_soak() -> CountsOfSoak:
    """The counts of the last long run."""
    return CountsOfSoak(**json.loads(COUNTS_OF_SOAK.read_text(encoding="utf-8")))


def read_counts() -> Counts:
    """The counts of the last run."""
    return Counts(**json.loads(COUNTS.read_text(encoding="utf-8")))


def pages(counts: Counts) -> Mapping[Path, str]:
    """The pages that carry counts, whole."""
    return {
        PAGE: "".join(
            (
                HEAD.read_text(encoding="utf-8"),
                _tables(counts),
                f"\n{BRIDGE.read_text(encoding='utf-8')}",
                _transcripts(),
                FOOT.read_text(encoding="utf-8"),
            )
        ),
        GUARANTEES_PAGE: guarantee_page() + _promises(counts),
    }


def _promises(counts: Counts) -> str:
    """For each promise the invariants that check it, and in how many schedules."""
    exhaustive = max((each["states"] for each in counts.exhaustive), default=0)
    rows = [["promise", "invariants", "explored"], ["---"] * 3]
    for promise in (*ROWS, *RUN_ROWS):
        numbers = [number for number, each in INVARIANTS.items() if each.row == promise]
        links = ", ".join(f"[{number}](simulation.md#what-is-checked)" for number in numbers)
        schedules = max((_checked(counts, number) for number in numbers), default=0)
        states = 0 if promise in RUN_ROWS else exhaustive
        told = f"{schedules:,} schedules" + (f", {states:,} states" if states else "")
        rows.append([promise, links, told])
    return (
        "\n## What a machine checks\n\n"
        "Every promise is one or more numbered invariants. A search runs the code of this package "
        "on servers in\nmemory, through many orders of events and many faults, and checks them "
        "after every step: [how the\nprotocol is explored](simulation.md). The figures are those "
        f"of one run, of the code of commit\n`{counts.commit}`.{_long_run(counts)}\n\n"
        + _table(rows)
    )


def _tables(counts: Counts) -> str:
    checked = [["number", "invariant", "promise", "schedules"], ["---"] * 4]
    for number, each in sorted(INVARIANTS.items()):
        checked.append([str(number), each.text, each.row, f"{_checked(counts, number):,}"])
    soak = read_counts_of_soak()
    mixes = [["mix", "question", "schedules", "steps", "in the long run"], ["---"] * 5]
    for name, mix in MIXES.items():
        told = f"{counts.schedules[name]:,}", f"{counts.steps[name]:,}"
        mixes.append([f"`{name}`", mix.question, *told, f"{soak.schedules.get(name, 0):,}"])
    kinds = [["choice", "what it is"], ["---"] * 2]
    kinds += [[kind.name.lower(), kind.value] for kind in Kind]
    exhaustive = [["switches", "faults", "schedules", "states"], ["---"] * 4]
    exhaustive += [
        [
            str(each["switches"]),
            str(each["faults"]),
            f"{each['schedules']:,}",
            f"{each['states']:,}",
        ]
        for each in counts.exhaustive
    ]
    rare = [["situation", "schedules"], ["---"] * 2]
    rarest = sorted(counts.seen.items(), key=lambda each: each[1])[:RAREST]
    rare += [[name, str(often)] for name, often in rarest]
    return "\n".join(
        (
            "\n## What is checked\n",
            _table(checked),
            "## What may happen\n",
            _table(kinds),
            _counted(counts),
            _table(mixes),
            "## Every schedule of two attempts\n",
            _table(exhaustive),
            f"## Situations\n\n{len(SOMETIMES)} named situations have to come up; the rarest:\n",
            _table(rare),
            "## Planted bugs\n",
            _planted(counts),
        )
    )


def _counted(counts: Counts) -> str:
    """Which figures of the table of mixes are of which run."""
    total = f"{sum(counts.schedules.values()):,} schedules, {sum(counts.steps.values()):,} steps"
    return (
        "## The mixes\n\nThe run that is counted on this page, of the code of commit "
        f"`{counts.commit}`: {total}.\n{_broken(counts)}{_long_run(counts)}\n"
        "[What the long runs met](#what-the-long-runs-met) says what broke an invariant there."
        f"{_younger()}\n"
    )


def _younger() -> str:
    if read_counts_of_soak().schedules.keys() == MIXES.keys():
        return ""
    return " A mix with 0 in\nthe last column is younger, and so are invariants 21 to 30."


def _broken(counts: Counts) -> str:
    if not counts.broken:
        return "None of them broke an invariant."
    told = ", ".join(f"`{each}`" for each in counts.broken)
    many = len(counts.broken)
    return f"{many} of them broke an invariant: {told}\n(what became of each is told below)."


def _planted(counts: Counts) -> str:
    """Every planted bug: the invariant that it broke, and how long it took to find."""
    rows = [["planted bug", "breaks invariant", "found after schedules"], ["---"] * 3]
    found = counts.planted.items()
    rows += [[name, str(number), str(after)] for name, (number, after, _) in found]
    seconds = [each for _, _, each in counts.planted.values()]
    median, longest = statistics.median(seconds), max(seconds)
    return (
        f"{len(seconds)} planted bugs, each found: in {median} s of one core at the median, and in "
        f"{longest} s at most.\n\n{_table(rows)}"
    )


def _long_run(counts: Counts) -> str:
    soak = read_counts_of_soak()
    if soak.schedules == counts.schedules:
        return ""
    schedules, steps = sum(soak.schedules.values()), sum(soak.steps.values())
    return (
        f" A longer run, of the code of commit\n`{soak.commit}`, explored {schedules:,} schedules "
        f"with {steps:,} steps."
    )


def _transcripts() -> str:
    """How many transcripts there are, and what those from the model check come to."""
    hand, search, model = len(BY_HAND), len(CHOSEN), len(FROM_THE_MODEL)
    rows = [["trace of the model check (policy)", "what it comes to"], ["---"] * 2]
    rows += [[script.name, script.end] for script in FROM_THE_MODEL]
    return (
        f"\n{hand + search + model} transcripts: {hand} written by hand, case by case; {search} "
        f"from the search, chosen for the situations\nthat they meet; {model} are "
        "counterexamples that a model check found for the policies of the documents.\nWhere the "
        "policy does not promise better, they end as badly here as there:\n\n" + _table(rows)
    )


def _checked(counts: Counts, number: int) -> int:
    """In how many schedules an invariant was checked."""
    of_runs = INVARIANTS[number].of_runs
    checks = [
        name
        for name, mix in MIXES.items()
        if number not in mix.without and (mix.shape.has_runs or not of_runs)
    ]
    return sum(counts.schedules[name] for name in checks)


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _write(path: Path, counted: Mapping[str, object]) -> None:
    path.write_text(f"{json.dumps(counted, indent=1)}\n", encoding="utf-8")


def main() -> int:
    """Count unless only the pages are wanted, then write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--render", action="store_true", help="only write the pages again")
    parser.add_argument("--schedules", type=int, default=25_100, help="of each mix")
    parser.add_argument("--minutes", type=float, default=0.0, help="as many as fit instead")
    parser.add_argument("--bounds", default="1:1,2:1,1:2,2:2", help="switches:faults, ...")
    given = parser.parse_args()
    if not given.render:
        bounds = [tuple(map(int, each.split(":"))) for each in str(given.bounds).split(",")]
        pairs = [(each[0], each[1]) for each in bounds]
        counted = count(given.schedules, pairs, given.minutes)
        _write(COUNTS, asdict(counted))
        long = CountsOfSoak(counted.commit, counted.schedules, counted.steps)
        if sum(long.schedules.values()) >= sum(read_counts_of_soak().schedules.values()):
            _write(COUNTS_OF_SOAK, asdict(long))
    counts = read_counts()
    for path, text in pages(counts).items():
        path.write_text(text, encoding="utf-8")
    return 0 if given.render else int(bool(counts.broken))


if __name__ == "__main__":
    sys.exit(main())
