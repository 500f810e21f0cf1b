"""What pages tell their reader exists: commands, settings, error codes, versions and defaults.

Pages whose commands need the reader's own servers are not run; their lines go through the parser.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.documented_commands import ALL_PAGES, check_line, shell_lines, takers
from tools.build_docs import PARSED_PAGES

from perago import TimeoutPolicy
from perago.app.command_line.program import COMMANDS
from perago.app.settings.settings import VARIABLES
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
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
OF_OLDER_VERSIONS = {"CHANGELOG.md", "docs/upgrade.md"}  # they name what is not there any more
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


@pytest.mark.parametrize("page", sorted(set(ALL_PAGES) - OF_OLDER_VERSIONS))
def test_a_command_in_a_sentence_is_there(page: str) -> None:
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    found = re.findall(r"(?<!`)`(perago [a-z][^`]+)`", text)
    assert [each for each in found if not is_there(each.replace("\\|", "|").split())] == []


def is_there(words: Sequence[str]) -> bool:
    """Whether command and options are known; a sentence may leave out what a command needs."""
    if words[1:] in [[row.name] for row in COMMANDS]:
        return True
    try:
        check_line(" ".join(words))
    except AssertionError as error:
        return type(error.__cause__).__name__ in {"MissingParameter", "BadParameter", "Exit"}
    return True


@pytest.mark.parametrize(("place", "taker"), takers().items(), ids=str)
def test_a_line_that_a_test_takes_from_a_page_is_there(place: tuple[str, str], taker: str) -> None:
    """What none takes is run by test_kit_docs or typed by test_commands_of_pages."""
    page, beginning = place
    assert [line for line in shell_lines(ROOT / page) if line.startswith(beginning)], taker


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
    known = set(VARIABLES) | BESIDE_SETTINGS
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
