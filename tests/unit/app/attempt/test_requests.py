"""What one publication asks of the servers, by policy: the table in docs/protocol.md, counted."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness

from perago.domain.policy import PolicySetting
from perago.domain.publication import EFFECT_LABELS, Effect
from perago.ports.workspace import Phase
from perago.testing.faults import crash

ROOT = Path(__file__).parents[4]
PROTOCOL = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
COLUMNS: dict[str, tuple[PolicySetting, bool]] = {
    "`head-parent`": (PolicySetting.HEAD_PARENT, False),
    "`head-parent` + fence": (PolicySetting.HEAD_PARENT, True),
    "`lineage`": (PolicySetting.LINEAGE, False),
    "`lineage` + fence": (PolicySetting.LINEAGE, True),
    "`settled`": (PolicySetting.SETTLED, True),
}
EXTRA_OF_SETTLED_MAX = 5
CANARY = Counter(
    {"branches.create": 2, "commits.commit": 1, "branches.merge": 2, "branches.delete": 2}
)
ONCE = Counter({"repositories.read": 1, "branches.head": 1})


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = PROTOCOL.partition(f"## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines()]


def _documented() -> dict[str, Counter[str]]:
    head, _, *rows = _rows("A changed first attempt")
    counts = {column: Counter[str]() for column in COLUMNS}
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        for column, count in counts.items():
            count[cells["request"].strip("`")] += int(cells[column] or 0)
    return {column: +count for column, count in counts.items()}


def _change_one(workspace: Path, run: int) -> None:
    (workspace / "kept.txt").write_text(f"changed by run {run}")


async def _counted(root: Path, column: str) -> tuple[Counter[str], Counter[str]]:
    """The calls of a process's first attempt, and of its second on the same repository."""
    policy, fenced = COLUMNS[column]
    harness = AttemptHarness(root, policy, fenced, body=_change_one)
    worker = harness.worker()
    spent: list[Counter[str]] = []
    for _ in range(2):
        await harness.start()
        before = harness.requests()
        report = await harness.report_of(worker)
        assert report.error is None
        spent.append(harness.requests() - before)
        harness.input = harness.repository.head().commit
    return spent[0], spent[1]


@pytest.mark.parametrize("column", COLUMNS)
async def test_the_table_of_requests_is_what_an_attempt_asks(tmp_path: Path, column: str) -> None:
    first, second = await _counted(tmp_path, column)

    assert second == _documented()[column]
    assert first - second == ONCE + (CANARY if COLUMNS[column][1] else Counter())


@pytest.mark.parametrize("column", COLUMNS)
async def test_an_attempt_of_a_second_asks_once_more_before_its_end(
    tmp_path: Path, column: str
) -> None:
    policy, fenced = COLUMNS[column]
    harness = AttemptHarness(tmp_path, policy, fenced)
    counts: list[Counter[str]] = []
    worker = harness.worker()

    def change_slowly(directory: Path, run: int) -> None:
        _change_one(directory, run)
        harness.clock.advance(1)

    for body in (_change_one, _change_one, change_slowly):
        harness.body = body
        await harness.start()
        before = harness.requests()
        await harness.attempt(worker)
        counts.append(harness.requests() - before)
        harness.input = harness.repository.head().commit
    assert counts[2] - counts[1] == Counter({"queue.read_workflow": 1})
    assert counts[1] - counts[2] == Counter()


async def _effect(harness: AttemptHarness) -> str:
    """The effect that the metric of publications has as its label."""
    worker = harness.worker()
    await harness.attempt(worker)
    (facts,) = (facts for phase, facts in worker.progress.events if phase is Phase.PUBLISHED)
    return str(facts["effect"])


async def test_the_effects_that_are_counted_have_their_documented_names(tmp_path: Path) -> None:
    operations = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = operations.split("\n### Effects\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \|", table, re.MULTILINE)
    labels = {EFFECT_LABELS[effect] for effect in get_args(Effect)}
    assert {label for label, _ in rows} == labels
    assert len(rows) == len(labels)
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert {word for _, word in rows} <= set(re.findall(r"^\| (\w+) \|", glossary, re.MULTILINE))
    kept = AttemptHarness(tmp_path / "kept", PolicySetting.SETTLED, changes=False)
    merged = AttemptHarness(tmp_path / "merged", PolicySetting.SETTLED)
    adopted = AttemptHarness(tmp_path / "adopted", PolicySetting.SETTLED)
    for harness in (kept, merged, adopted):
        await harness.start()
    await adopted.attempt(adopted.worker([crash(after="merge")]))
    await adopted.lose_lease()
    found = [await _effect(harness) for harness in (kept, merged, adopted)]
    assert found == ["kept", "merged", "adopted"]


def test_settled_costs_at_most_five_requests_more_than_plain_head_parent() -> None:
    documented = _documented()
    extra = documented["`settled`"].total() - documented["`head-parent`"].total()
    assert 0 < extra <= EXTRA_OF_SETTLED_MAX


def test_the_documented_times_are_the_measured_ones() -> None:
    measured: dict[str, dict[int, str]] = {}
    path = ROOT / "benchmarks/results/publish.json"
    for row in json.loads(path.read_text(encoding="utf-8")):
        milliseconds = f"{row['seconds'] * 1000:.0f} ms"
        measured.setdefault(f"`{row['subject']}`", {})[row["rtt_ms"]] = milliseconds
    _, _, *rows = _rows("Time")
    assert {row[0]: {0: row[1], 20: row[2]} for row in rows} == measured
