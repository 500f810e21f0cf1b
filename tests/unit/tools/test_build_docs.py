"""The documentation has no warnings, each kind of warning is seen, and pictures are of today."""

import json
from pathlib import Path

import pytest
from tools.build_docs import ROOT, build, slug
from tools.docs_site import KINDS
from tools.write_pictures import PICTURES, pictures

GOOD = "# Start\n\n[a page](docs/tutorial.md) and [its part](docs/tutorial.md#a-part-of-it)\n"
PAGE = "# Page\n\n## A part of it\n\n[back](../README.md#start)\n"


def test_our_documentation_has_no_warnings(tmp_path: Path) -> None:
    assert build(ROOT, tmp_path) == []
    assert (tmp_path / "docs/explanation.html").read_text(encoding="utf-8").count("<img") >= 5


@pytest.mark.parametrize(
    ("start", "page", "warning"),
    [
        (GOOD, PAGE, None),
        (
            GOOD.replace("of-it", "of-that"),
            PAGE,
            "README.md: docs/tutorial.md#a-part-of-that",
        ),
        (
            GOOD,
            PAGE.replace("README", "MISSING"),
            "docs/tutorial.md: ../MISSING.md#start leads nowhere",
        ),
        (
            GOOD,
            PAGE + "![p](pictures/none.svg)\n",
            "docs/tutorial.md: pictures/none.svg leads nowhere",
        ),
        ("# Start\n", PAGE, "docs/tutorial.md: no page links to it"),
        (GOOD, PAGE + "# Another\n", "docs/tutorial.md: has 2 titles"),
        (
            GOOD,
            PAGE + "```\nx\n```\n",
            "docs/tutorial.md: line 6: a block of code says",
        ),
        (GOOD, PAGE + "```bash\nx\n```\n", "docs/tutorial.md: line 6: no test runs this block"),
        (GOOD, PAGE + "```console\n$ x\n```\n", None),
        (GOOD, PAGE + "```text\n1 of 2\n```\n", None),
        (GOOD, PAGE + "```text\nperago demo\n```\n", "docs/tutorial.md: line 6: code in a block"),
        (GOOD, PAGE + "\n    perago demo\n", "docs/tutorial.md: line 7: a block of code without a"),
    ],
)
def test_each_kind_of_mistake_is_seen(
    tmp_path: Path, start: str, page: str, warning: str | None
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(start)
    (tmp_path / "docs/tutorial.md").write_text(page)
    found = build(tmp_path, tmp_path / "out")
    assert [each[: len(warning or "")] for each in found] == ([warning] if warning else [])
    assert 'href="docs/tutorial.html' in (tmp_path / "out/README.html").read_text() or warning


def test_code_that_no_test_runs_is_seen(tmp_path: Path) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Start\n\n[a page](docs/reference/new.md)\n")
    (tmp_path / "docs/reference/new.md").write_text("# New\n\n```python\nx\n```\n")
    (found,) = build(tmp_path, tmp_path / "out")
    assert found == "docs/reference/new.md: line 3: no test runs this block of python"


def test_a_page_of_no_kind_is_seen(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Start\n\n[a page](docs/new.md)\n")
    (tmp_path / "docs/new.md").write_text("# New\n")
    assert build(tmp_path, tmp_path / "out") == [
        "docs/new.md: has 0 kinds, expected one; see KINDS in docs_site.py"
    ]


def test_the_search_has_every_heading_and_leads_to_it(tmp_path: Path) -> None:
    build(ROOT, tmp_path)
    script = (tmp_path / "search.js").read_text(encoding="utf-8")
    sections = json.loads(script.removeprefix("const SECTIONS = ").removesuffix(";\n"))
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {each["u"].partition("#")[0] for each in sections} == pages
    for each in sections:
        page, _, anchor = each["u"].partition("#")
        assert f'id="{anchor}"' in (tmp_path / page).read_text(encoding="utf-8"), each["u"]
    found = [each["u"] for each in sections if "prg-f002" in f"{each['h']} {each['t']}".lower()]
    assert "docs/errors.html#prg-f002" in found
    assert 'src="../../search.js"' in (tmp_path / "docs/how-to/kubernetes.html").read_text("utf-8")


def test_every_page_lists_every_other_one_by_its_kind(tmp_path: Path) -> None:
    build(ROOT, tmp_path)
    text = (tmp_path / "docs/tutorial.html").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"<summary>{kind}</summary>" in text
    assert '<a href="../docs/architecture.html">' in text
    assert "hexagon.svg" in (tmp_path / "docs/architecture.html").read_text(encoding="utf-8")


def test_anchors_are_those_of_code_hosts() -> None:
    assert slug("1. A task, `and` more!") == "1-a-task-and-more"


def test_pictures_are_drawn_from_the_runs_of_today() -> None:
    """`python -m tools.write_pictures` writes them."""
    for name, text in pictures().items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, name
