"""The list of transfer scenarios is whole: each row names a test that exists."""

import re
from pathlib import Path

import pytest
from tests.unit.test_acceptance import functions_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "transfer-scenarios.md").read_text(encoding="utf-8")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROWS = re.findall(r"^\| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
SCENARIOS_MIN = 50  # a scenario that disappears from the list is a change of what is promised
DEFECTS = range(1, 26)


@pytest.mark.parametrize("file_and_name", sorted(set(TEST.findall(PAGE))), ids="::".join)
def test_a_named_test_exists(file_and_name: tuple[str, str]) -> None:
    file, name = file_and_name
    path = ROOT / (file if "/" in file else f"tests/integration/{file}")
    assert name.startswith("test_")
    assert name in functions_of(path)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row[0] not in {"---", "Scenario", "Defect"}],
    ids=lambda row: row[0],
)
def test_a_row_names_a_test_or_says_why_there_is_none(row: tuple[str, str]) -> None:
    assert TEST.search(row[1]) or row[1].startswith(("code gone", "not Perago's code"))


def test_every_scenario_and_every_defect_has_its_row() -> None:
    scenarios, _, defects = PAGE.partition("## Defects")
    assert len(TEST.findall(scenarios)) >= SCENARIOS_MIN
    assert {f"r{number:02}" for number in DEFECTS} == set(
        re.findall(r"^\| (r\d\d) ", defects, re.MULTILINE)
    )
