"""The pages that carry counts say what the code says, with the counts of the last run."""

import re
from pathlib import Path

import pytest
from tests.simulation.explore import command_of, explore
from tests.simulation.guarantees import ROWS, RUN_ROWS
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mixes import MIXES
from tests.simulation.planted import PLANTS, planted
from tests.simulation.report import FOOT, keep_broken, pages, read_counts
from tests.simulation.sometimes import SOMETIMES


@pytest.mark.parametrize("path", pages(read_counts()), ids=lambda path: path.name)
def test_a_page_is_written_from_the_counts(path: Path) -> None:
    """`python -m tests.simulation.report --render` writes it."""
    assert path.read_text(encoding="utf-8") == pages(read_counts())[path]


def test_the_counts_are_of_todays_mixes_plants_and_situations() -> None:
    """`python -m tests.simulation.report` counts again."""
    counts = read_counts()
    assert list(counts.schedules) == list(MIXES)
    assert list(counts.planted) == [plant.name for plant in PLANTS]
    assert list(counts.seen) == list(SOMETIMES)
    assert all(counts.seen.values())
    assert all(number in INVARIANTS for number, _, _ in counts.planted.values())


def test_every_promise_has_an_invariant_that_some_mix_checks() -> None:
    for promise in (*ROWS, *RUN_ROWS):
        mine = [number for number, each in INVARIANTS.items() if each.row == promise]
        assert mine, promise
        assert any(number not in mix.without for number in mine for mix in MIXES.values())
    assert {each.row for each in INVARIANTS.values()} <= {*ROWS, *RUN_ROWS}


def test_every_broken_schedule_is_kept_with_the_command_that_shows_it(tmp_path: Path) -> None:
    mix = MIXES["run"]
    plant = next(
        each for each in PLANTS if each.name == "begin creates the run branch without a look"
    )
    with planted(plant):
        found = explore(mix, 0, 250, broken_max=250)
    assert (found.schedules, len(found.broken) > 1) == (250, True)
    keep_broken({"run": found}, tmp_path / "build" / "broken.txt")
    lines = (tmp_path / "build" / "broken.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(found.broken)
    for line, (seed, ran) in zip(lines, found.broken, strict=True):
        assert line.startswith(f"run {seed}: {ran.broken}; ")
        assert line.endswith(command_of(mix, seed))


def test_the_page_says_what_became_of_every_broken_schedule_that_is_counted() -> None:
    rows = [line for line in FOOT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for name, seed in (each.split() for each in read_counts().broken):
        assert [row for row in rows if f"`{name}`" in row and re.search(rf"seed.* {seed}\b", row)]
