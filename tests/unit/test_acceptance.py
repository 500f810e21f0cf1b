"""The acceptance list is whole: every row has its id, its test exists, none of ours is pending."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Rows of each section; a row that disappears from the list is a change of the contract.
ROWS = {
    "1.1": 4,
    "1.2": 11,
    "1.3": 15,
    "1.4": 21,
    "1.5": 7,
    "1.6": 12,
    "1.7": 4,
    "1.8": 11,
    "1.9": 19,
    "1.10": 8,
    "1.11": 18,
    "1.12": 4,
    "1.13": 5,
    "1.14": 4,
    "1.15": 5,
    "1.16": 12,
    "1.17": 4,
    "1.18": 7,
    "1.19": 3,
    "D": 23,
}
DELIVERED_ELSEWHERE = {"1.11", "1.12", "1.13", "1.14", "1.15", "1.16", "1.17", "1.18", "1.19"}
ISSUES = {"4", "5", "6", "7"}
LINE = re.compile(r"\| ((?:1\.\d+|D)-\d\d) \| (.+?) \| (`[^`]+`|pending) \|(?: (\d+) \|)?")


@dataclass(frozen=True)
class Row:
    """One promise."""

    name: str
    promise: str
    test: str
    issue: str | None

    @property
    def section(self) -> str:
        """The section the row belongs to."""
        return self.name.partition("-")[0]


def rows() -> list[Row]:
    lines = (ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8").splitlines()
    found = [LINE.fullmatch(line) for line in lines if line.startswith(("| 1.", "| D-"))]
    return [Row(each[1], each[2], each[3].strip("`"), each[4]) for each in found if each]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_every_section_has_all_its_rows_in_order() -> None:
    expected = [f"{name}-{n:02d}" for name, count in ROWS.items() for n in range(1, count + 1)]
    assert [row.name for row in rows()] == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_has_a_test_that_exists(row: Row) -> None:
    if row.test == "pending":
        assert row.section in DELIVERED_ELSEWHERE
        return
    name, _, function = row.test.partition("::")
    path = ROOT / name
    assert path.is_file()
    assert function.startswith("test_")
    assert function in functions_of(path)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_names_the_issue_that_delivers_it(row: Row) -> None:
    assert row.section == "D" or row.issue in ISSUES
    assert row.section in DELIVERED_ELSEWHERE or row.issue in {None, "5"}
