"""The example of the README runs and prints what the README says; its links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
LINES_MAX = 30


def _block(language: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_prints_what_stands_below_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = tmp_path / "example.py"
    example.write_text(_block("python"), encoding="utf-8")

    runpy.run_path(str(example), run_name="__main__")

    assert capsys.readouterr().out == _block("output")


def test_the_example_stays_short() -> None:
    code = [line for line in _block("python").splitlines() if line.strip()]
    assert len(code) <= LINES_MAX


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_to_a_file_of_the_repository_leads_to_it(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []
