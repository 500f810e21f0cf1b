"""What pages tell their reader exists: commands, settings, error codes, versions and defaults.

Pages whose commands need the reader's own servers are not run; their lines go through the parser.
"""

import re
from pathlib import Path

import pytest
from tests.documented_commands import check_line, shell_lines
from tools.build_docs import PARSED_PAGES

from perago import TimeoutPolicy
from perago.app.settings.layers import variables
from perago.app.settings.settings import Settings
from perago.domain.error_codes import error_codes
from perago_servers.versions import CONDUCTOR, LAKEFS

ROOT = Path(__file__).parents[2]
# Pages that are written by hand for users; references are rendered, and others run their code.
PAGES = sorted(
    [
        *ROOT.glob("docs/how-to/*.md"),
        *ROOT.glob("docs/explanation/*.md"),
        ROOT / "docs/reference/support.md",
    ]
)
CODE = re.compile(r"\bPRG-[A-Z]\d{3}\b")
SETTING = re.compile(r"`(PERAGO_[A-Z_]+)(?:=[^`]*)?`")
# Names that the test kit and the executors read, and that no worker is set up by.
BESIDE_SETTINGS = {"PERAGO_TEST_LAKEFS_ENDPOINT", "PERAGO_EXECUTOR"}
QUESTIONS = ROOT / "docs/explanation/questions.md"


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    ("page", "line"),
    [
        (page, line)
        for page in sorted(PARSED_PAGES)
        for line in dict.fromkeys(shell_lines(ROOT / page))
    ],
)
def test_a_command_of_a_page_is_there(page: str, line: str) -> None:
    assert (ROOT / page).is_file()
    check_line(line)


@pytest.mark.parametrize("page", sorted(PARSED_PAGES))
def test_python_of_a_page_with_commands_runs(page: str) -> None:
    """What its commands do is seen on real servers; a declaration needs none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, page, "exec"), {})  # noqa: S102 - the page's own code


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_codes_and_settings_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(CODE.findall(text)) <= set(error_codes())
    known = {variable.name for _, variable in variables(Settings)} | BESIDE_SETTINGS
    assert set(SETTING.findall(text)) <= known


@pytest.mark.parametrize("page", ["docs/reference/support.md", "docs/explanation/questions.md"])
def test_a_page_names_the_versions_that_the_gate_runs(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert LAKEFS in text
    assert CONDUCTOR in text


def test_sizes_are_the_defaults_of_the_settings() -> None:
    text = (ROOT / "docs/how-to/size-workers.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
    for name, value in [
        ("PERAGO_CACHE_SIZE", "10GB"),
        ("PERAGO_LOG_FILE_MAX_SIZE", "100MB"),
        ("PERAGO_LOG_RETENTION", "30d"),
    ]:
        assert f"| `{name}` | `{value}` |" in reference
        assert value in text
    assert f"{TimeoutPolicy().response_seconds} by default" in (
        ROOT / "docs/how-to/set-up-servers.md"
    ).read_text(encoding="utf-8")


def test_every_question_has_an_answer_and_most_lead_to_a_page() -> None:
    sections = QUESTIONS.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) >= 10
    for section in sections:
        question, _, answer = section.partition("\n")
        assert question.endswith("?")
        assert "→ [" in answer, question
