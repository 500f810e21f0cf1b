"""Every command of the Makefile is listed by `make help`, and its cost stands in the documents."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BUDGET = (ROOT / "docs" / "development.md").read_text(encoding="utf-8").partition("## Budget")[2]
WITHOUT_COST = {"help", "clean"}


def listed() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, re.MULTILINE))


def test_every_command_has_a_row_in_the_budget() -> None:
    rows = set(re.findall(r"^\|.*?`make ([a-z-]+)`", BUDGET, re.MULTILINE))
    assert listed() - WITHOUT_COST - rows == set()
    assert rows - listed() == set()


def test_every_target_is_declared_as_no_file() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert listed() - set(phony.split()) == set()
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    assert targets == set(phony.split())
