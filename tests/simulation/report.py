"""Runs the whole search once and writes what it counted into the documentation.

`python -m tests.simulation.report` explores, counts and writes; `--render` only writes the pages
again from the counts of the last run. A test keeps pages, counts and code together.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.simulation.bridge.by_hand import BY_HAND
from tests.simulation.bridge.chosen import CHOSEN
from tests.simulation.bridge.from_the_model import FROM_THE_MODEL
from tests.simulation.exhaustive import explore_exhaustively
from tests.simulation.explore import explore_all
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mixes import MIXES, Kind
from tests.simulation.planted import PLANTS, hunt
from tests.simulation.sometimes import SOMETIMES

from perago.domain.guarantees import GUARANTEES, guarantee_page

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).parent / "counts.json"
PAGE = ROOT / "docs" / "simulation.md"
GUARANTEES_PAGE = ROOT / "docs" / "guarantees.md"
HEAD = Path(__file__).parent / "page_head.md"
BRIDGE = Path(__file__).parent / "page_bridge.md"
FOOT = Path(__file__).parent / "page_foot.md"
RAREST = 12


@dataclass(frozen=True, slots=True)
class Counts:
    """What one run of the whole search counted."""

    schedules: Mapping[str, int]
    steps: Mapping[str, int]
    seen: Mapping[str, int]
    planted: Mapping[str, Sequence[int]]
    exhaustive: Sequence[Mapping[str, int]]


def count(schedules: int, bounds: Iterable[tuple[int, int]]) -> Counts:
    """Explore every mix, every bound and every planted bug."""
    found = explore_all(schedules)
    seen = Counter[str]()
    for name, each in found.items():
        assert not each.broken, f"{name} is broken: python -m tests.simulation.explore --mix {name}"
        seen.update(each.seen)
    exhaustive: list[Mapping[str, int]] = []
    for switches, faults in bounds:
        explored = explore_exhaustively(switches=switches, faults=faults)
        assert not explored.broken, f"{switches} switches and {faults} faults break an invariant"
        facts = {"schedules": explored.schedules, "states": len(explored.states)}
        exhaustive.append({"switches": switches, "faults": faults, **facts})
    planted: dict[str, Sequence[int]] = {}
    for plant in PLANTS:
        hunted = hunt(plant)
        planted[plant.name] = (hunted.invariant or 0, hunted.schedules)
    return Counts(
        {name: each.schedules for name, each in found.items()},
        {name: each.steps for name, each in found.items()},
        {name: seen[name] for name in SOMETIMES},
        planted,
        exhaustive,
    )


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
    states = max((each["states"] for each in counts.exhaustive), default=0)
    rows = [["promise", "invariants", "explored"], ["---"] * 3]
    for guarantee in GUARANTEES:
        numbers = [number for number, each in INVARIANTS.items() if each.row == guarantee.promise]
        links = ", ".join(f"[{number}](simulation.md#what-is-checked)" for number in numbers)
        schedules = max((_checked(counts, number) for number in numbers), default=0)
        rows.append([guarantee.promise, links, f"{schedules:,} schedules, {states:,} states"])
    return (
        "\n## What a machine checks\n\n"
        "Every promise is one or more numbered invariants. A search runs the code of this package "
        "on servers in\nmemory, through many orders of events and many faults, and checks them "
        "after every step: [how the\nprotocol is explored](simulation.md). The figures are those "
        "of one run.\n\n" + _table(rows)
    )


def _tables(counts: Counts) -> str:
    checked = [["number", "invariant", "promise", "schedules"], ["---"] * 4]
    for number, each in sorted(INVARIANTS.items()):
        checked.append([str(number), each.text, each.row, f"{_checked(counts, number):,}"])
    mixes = [["mix", "question", "schedules", "steps"], ["---"] * 4]
    for name, mix in MIXES.items():
        told = f"{counts.schedules[name]:,}", f"{counts.steps[name]:,}"
        mixes.append([f"`{name}`", mix.question, *told])
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
    planted = [["planted bug", "breaks invariant", "found after schedules"], ["---"] * 3]
    planted += [[name, str(number), str(after)] for name, (number, after) in counts.planted.items()]
    rare = [["situation", "schedules"], ["---"] * 2]
    rarest = sorted(counts.seen.items(), key=lambda each: each[1])[:RAREST]
    rare += [[name, str(often)] for name, often in rarest]
    total = f"{sum(counts.schedules.values()):,} schedules, {sum(counts.steps.values()):,} steps"
    met = "[What the long runs met](#what-the-long-runs-met) says what broke an invariant."
    return "\n".join(
        (
            "\n## What is checked\n",
            _table(checked),
            "## What may happen\n",
            _table(kinds),
            f"## The mixes\n\nThe long run that is counted here: {total}.\n{met}\n",
            _table(mixes),
            "## Every schedule of two attempts\n",
            _table(exhaustive),
            f"## Situations\n\n{len(SOMETIMES)} named situations have to come up; the rarest:\n",
            _table(rare),
            "## Planted bugs\n",
            _table(planted),
        )
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
    return sum(counts.schedules[name] for name, mix in MIXES.items() if number not in mix.without)


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> int:
    """Count unless only the pages are wanted, then write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--render", action="store_true", help="only write the pages again")
    parser.add_argument("--schedules", type=int, default=38_000, help="of each mix")
    parser.add_argument("--bounds", default="1:1,2:1,1:2,2:2", help="switches:faults, ...")
    given = parser.parse_args()
    if not given.render:
        bounds = [tuple(map(int, each.split(":"))) for each in str(given.bounds).split(",")]
        counted = count(given.schedules, [(each[0], each[1]) for each in bounds])
        COUNTS.write_text(f"{json.dumps(asdict(counted), indent=1)}\n", encoding="utf-8")
    for path, text in pages(read_counts()).items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
