"""Commands for developers that last minutes or hours: typed, and stopped before the work.

The gate does the work itself: `make test` runs the short form of each search, and these tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documented_commands import page_lines

ROOT = Path(__file__).parents[2]


def typed(line: str, **more: str) -> str:
    """What a line says in the clone; a make above this one is not seen."""
    outside = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-ec", line],  # noqa: S607 - the shell of the page
        cwd=ROOT,
        env={**outside, "PATH": programs, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_search_is_there_for_each_command() -> None:
    """MAKEFLAGS lets make print what it would run; the report, of hours, tells its options."""
    *searches, report = page_lines(
        "docs/simulation.md", "make ", "python -m tests.simulation.report"
    )
    said = "".join(typed(each, MAKEFLAGS="n") for each in searches)
    for part in (
        "tests.simulation.explore --mix all --schedules 2000",
        "tests.simulation.explore --mix verbs --schedules 100000",
        "tests.simulation.planted",
        "pytest -m soak",
    ):
        assert part in said
    assert "--render" in typed(f"{report} --help")


@pytest.mark.parametrize(
    "line",
    [
        *page_lines("docs/simulation.md", "python -m pytest"),
        *page_lines("docs/transfer-scenarios.md", "pytest "),
    ],
)
def test_the_tests_that_a_page_names_are_found(line: str) -> None:
    said = typed(line, PYTEST_ADDOPTS="--collect-only -q -p no:cacheprovider")
    assert "::test_" in said
