"""The pages that carry counts say what the code says, with the counts of the last run."""

from pathlib import Path

import pytest
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mixes import MIXES
from tests.simulation.planted import PLANTS
from tests.simulation.report import pages, read_counts
from tests.simulation.sometimes import SOMETIMES

from perago.domain.guarantees import ROWS, RUN_ROWS


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
