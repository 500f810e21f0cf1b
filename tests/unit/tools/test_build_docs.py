"""The documentation has no warnings, each kind of warning is seen, and pictures are of today."""

from pathlib import Path

import pytest
from tools.build_docs import ROOT, build, slug
from tools.write_pictures import PICTURES, pictures

GOOD = "# Start\n\n[a page](docs/page.md) and [its part](docs/page.md#a-part-of-it)\n"
PAGE = "# Page\n\n## A part of it\n\n[back](../README.md#start)\n"


def test_our_documentation_has_no_warnings(tmp_path: Path) -> None:
    assert build(ROOT, tmp_path) == []
    assert (tmp_path / "docs/explanation.html").read_text(encoding="utf-8").count("<img") >= 5


@pytest.mark.parametrize(
    ("start", "page", "warning"),
    [
        (GOOD, PAGE, None),
        (GOOD.replace("of-it", "of-that"), PAGE, "README.md: docs/page.md#a-part-of-that has no"),
        (
            GOOD,
            PAGE.replace("README", "MISSING"),
            "docs/page.md: ../MISSING.md#start leads nowhere",
        ),
        (GOOD, PAGE + "![p](pictures/none.svg)\n", "docs/page.md: pictures/none.svg leads nowhere"),
        ("# Start\n", PAGE, "docs/page.md: no page links to it"),
        (GOOD, PAGE + "# Another\n", "docs/page.md: has 2 titles"),
        (GOOD, PAGE + "```\nx\n```\n", "docs/page.md: line 6: a block of code says no language"),
        (GOOD, PAGE + "```python\nx\n```\n", "docs/page.md: line 6: no test runs this block"),
    ],
)
def test_each_kind_of_mistake_is_seen(
    tmp_path: Path, start: str, page: str, warning: str | None
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(start)
    (tmp_path / "docs/page.md").write_text(page)
    found = build(tmp_path, tmp_path / "out")
    assert [each[: len(warning or "")] for each in found] == ([warning] if warning else [])
    assert 'href="docs/page.html' in (tmp_path / "out/README.html").read_text() or warning


def test_anchors_are_those_of_code_hosts() -> None:
    assert slug("1. A task, `and` more!") == "1-a-task-and-more"


def test_pictures_are_drawn_from_the_runs_of_today() -> None:
    """`python -m tools.write_pictures` writes them."""
    for name, text in pictures().items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, name
