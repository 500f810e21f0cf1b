"""Every command of the Makefile is listed by `make help`, and its cost stands in the documents."""

import os
import re
import subprocess
from pathlib import Path

from tests.documented_commands import page_lines

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


def test_make_test_runs_every_part_of_the_gate() -> None:
    """It cannot run inside itself: MAKEFLAGS lets it print what it would run."""
    typed = {*page_lines("README.md", "make test"), *page_lines("CONTRIBUTING.md", "make test")}
    outside = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    for line in typed:
        ran = subprocess.run(
            ["sh", "-c", line],  # noqa: S607 - the shell of the page
            cwd=ROOT,
            env={**outside, "MAKEFLAGS": "n"},
            capture_output=True,
            text=True,
            check=True,
        )
        for part in (
            "ruff check",
            "bin/mypy",
            "bin/pyright",
            "perago_servers fetch",
            "tests/unit",
            "examples",
            "tests --ignore=tests/unit",
            '-m "spark and not soak"',
            '-m "(browser or lakefs or conductor) and not (spark or soak)"',
        ):
            assert part in ran.stdout
