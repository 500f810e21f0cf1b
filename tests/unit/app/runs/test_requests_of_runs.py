"""What begin and finish ask of the servers: the table in docs/protocol.md, counted."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.app.runs.run_harness import BEGIN, FINISH, RunHarness

from perago.domain.run import OnMoved

PROTOCOL = (Path(__file__).parents[4] / "docs/protocol.md").read_text(encoding="utf-8")
COLUMNS = {"`perago.begin`": BEGIN, "`perago.finish`": FINISH, "the same, rebased": FINISH}
# Of the first attempt of a process: it looks at the repository and tries the fence.
ONCE = Counter({"repositories.read": 1, "branches.head": 1, "branches.create": 2})
CANARY = Counter({"commits.commit": 1, "branches.merge": 2, "branches.delete": 2})


def documented(column: str) -> Counter[str]:
    """The calls that the page names in a column."""
    table = re.search(r"(?:^\|.*\n)+", PROTOCOL.partition("## A run\n")[2], re.MULTILINE)
    assert table is not None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines()]
    head, _, *lines = rows
    counts = Counter[str]()
    for line in lines:
        cells = dict(zip(head, line, strict=True))
        counts[cells["request"].strip("`")] += int(cells[column] or 0)
    return +counts


@pytest.mark.parametrize("column", COLUMNS)
async def test_the_page_lists_the_requests_of_a_run(tmp_path: Path, column: str) -> None:
    rebased = column == "the same, rebased"
    on_moved = OnMoved.REBASE if rebased else OnMoved.REFUSE
    harness = await RunHarness(tmp_path, on_moved=on_moved).started()
    await harness.until(COLUMNS[column])
    if rebased:
        harness.human()
    assert (await harness.report()).error is None
    assert harness.requests(-1) - ONCE - CANARY == documented(column)
    assert harness.requests(-1).total() == (documented(column) + ONCE + CANARY).total()
