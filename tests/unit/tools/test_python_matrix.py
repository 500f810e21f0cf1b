"""The rows of `make matrix` for Pythons are those that the package declares and the pages name."""

import re
import sys
from pathlib import Path

from tools.python_matrix import declared, interpreter, version_of

ROOT = Path(__file__).parents[3]


def test_every_python_that_is_declared_is_named_by_the_pages() -> None:
    rows = set(re.findall(r"3\.1\d", (ROOT / "docs/reference/support.md").read_text("utf-8")))
    assert set(declared()) == rows
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| Python | {declared()[0]} to {declared()[-1]}" in readme


def test_the_python_of_the_gate_is_found_and_is_what_it_says() -> None:
    own = "{}.{}".format(*sys.version_info[:2])
    found = interpreter(own)
    assert found is not None
    assert version_of(found) == own


def test_a_python_that_nothing_has_is_none_and_not_another_one() -> None:
    assert interpreter("3.99") is None


def test_a_program_that_is_no_python_has_no_version() -> None:
    assert version_of("/bin/false") == ""
