"""Every dependency has its reason in docs/dependencies.md, and every exact version its pin."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCUMENT = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PINNED = (ROOT / "constraints.txt").read_text(encoding="utf-8")


def name_of(requirement: str) -> str:
    """Return the normalised name that a requirement starts with."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def rows_under(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading."""
    section = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "|" in line]
    return rows[2:]


def test_the_run_time_table_is_the_run_time_list() -> None:
    listed = [name_of(requirement) for requirement in PROJECT["project"]["dependencies"]]
    assert [row[0] for row in rows_under("Run time")] == sorted(listed)


def test_the_table_of_extras_is_the_list_of_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    listed = {(name_of(item), extra) for extra, items in extras.items() for item in items}
    assert {(row[0], row[1]) for row in rows_under("Extras")} == listed


def test_each_reason_is_a_sentence_and_not_an_empty_cell() -> None:
    for row in rows_under("Run time") + rows_under("Extras"):
        assert len(row[-1].split()) >= 5, row


def test_everything_the_gate_installs_by_name_is_pinned() -> None:
    pins = {name_of(line) for line in PINNED.splitlines() if "==" in line}
    groups = PROJECT["dependency-groups"]["dev"] + PROJECT["project"]["dependencies"]
    wanted = {name_of(requirement) for requirement in groups}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted |= {
        name_of(item)
        for extra in ("openlineage", "otel", "spark", "testing")
        for item in extras[extra]
    }
    assert wanted - pins == set()


def test_a_pin_is_a_name_and_one_version() -> None:
    pins = [line for line in PINNED.splitlines() if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
