"""The guarantee table says what the specification says, and the documentation repeats it."""

import pytest
from tests.simulation.guarantees import ROWS, column_of, guarantee_page, guarantee_table

from perago.domain.policy import Level

YES, NO, REBASE = "yes", "no", "lakeFS merges onto it silently"
REFUSED = "lakeFS refuses the merge"
LOST = (
    "only if nothing else writes to the branch and no request of a timed-out attempt arrives late"
)
DROPPED = "relocation can drop it if its metadata names no other owner"
COLUMNS = (
    Level.HEAD_PARENT,
    Level.HEAD_PARENT_FENCED,
    Level.LINEAGE,
    Level.LINEAGE_FENCED,
    Level.SETTLED,
)
TABLE = {
    "accepted publication never lost": (
        LOST, f"merges: yes; relocation: {LOST}", YES, YES, YES,
    ),
    "another writer's commit never overwritten": (
        f"{REBASE}; {DROPPED}", f"{REFUSED}; {DROPPED}", REBASE, REFUSED, YES,
    ),
    "nothing of an abandoned or stale attempt visible after acceptance": (
        "no (late requests)", "no (late requests after a no-op)", NO,
        "possible, but only from an attempt of the same task",
        "yes, within one logical execution; not after a rerun, a restart or a human's hard reset",
    ),
    "at most one publication of a logical execution": (NO, NO, NO, NO, YES),
    "works on protected branches": (
        "first publication only", "first publication only", YES, YES, YES,
    ),
    "retry runs the task function again": (
        YES, YES, YES, YES, "not after the decision; on the same host, not after it has ended",
    ),
}  # fmt: skip


def test_the_table_is_the_specifications() -> None:
    columns = zip(*map(column_of, COLUMNS), strict=True)
    assert dict(zip(ROWS, columns, strict=True)) == TABLE


def test_every_level_is_a_column_weakest_first() -> None:
    assert list(COLUMNS) == list(Level)


def test_a_level_publishes_at_most_once_where_a_tag_decides() -> None:
    (number,) = [n for n, row in enumerate(ROWS) if row.startswith("at most one publication")]
    by_tag = [level for level in Level if level.shape.decides_by_tag]
    assert [level for level in Level if column_of(level)[number] == YES] == by_tag
    assert Level.SETTLED in by_tag


@pytest.mark.parametrize("line", [0, 1, 2, -1])
def test_every_line_of_the_markdown_has_a_cell_for_each_column(line: int) -> None:
    text = guarantee_table().splitlines()[line]
    assert text.startswith("| ")
    assert text.endswith(" |")
    assert text.count("|") == len(Level) + 2


def test_the_table_begins_with_its_levels() -> None:
    documents = "`head-parent` | `head-parent` + fence | `lineage` | `lineage` + fence"
    head, rule = guarantee_table().splitlines()[:2]
    assert head.startswith(f"|  | {documents} | `settled` (needs the fence) |")
    assert rule == "| --- |" + " --- |" * len(Level)


def test_the_page_has_the_table() -> None:
    """`python -m tests.simulation.report --render` writes it; test_report compares the file."""
    assert guarantee_table() in guarantee_page()
