"""The table of codes, the code and the documents say the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.remedies import (
    PLACEHOLDERS,
    PROGRAMS,
    commands_of,
    parse,
    placeholders_of,
    words_of,
)
from tests.unit.remedies.coverage import BY_A_TEST_OF_ITS_OWN, IN_TABLES, WITHOUT
from tools.write_reference import PAGES

from perago.domain.error_codes import (
    ErrorCode,
    Severity,
    UnknownCodeError,
    error_codes,
    find_code,
)

ROOT = Path(__file__).parents[3]
CODE = re.compile(r"PRG-[A-Z]\d{3}")
SAYS_NOTHING = re.compile(
    r"\b([Rr]ead|[Ll]ook at|[Ss]ee|[Cc]heck) the (message|reason|text|log)\b|\b[Pp]lease\b"
)
WORDS_OF_OURS = re.compile(r"\b([Nn]obody|[Ss]omebody|[Ww]hoever|body|bodies|told|world)\b")
"""House 3.7: an actor has a name, and a user knows task functions, not bodies."""


def used_codes() -> set[str]:
    """Codes that are named anywhere in the Python of the package; the table is no Python."""
    files = (ROOT / "src").rglob("*.py")
    return {code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))}


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}


ROWS = pytest.mark.parametrize("row", error_codes().values(), ids=lambda row: row.code)


def test_every_code_that_is_used_is_explained() -> None:
    assert used_codes() - set(error_codes()) == set()


def test_every_code_that_is_explained_is_used() -> None:
    assert set(error_codes()) - used_codes() == set()


@ROWS
def test_a_row_is_complete(row: ErrorCode) -> None:
    assert CODE.fullmatch(row.code)
    for text in (row.cause, row.remedy, row.text):
        assert text.endswith(".")
        assert "\n" not in text
        assert not WORDS_OF_OURS.search(text)
    assert len(row.cause) < 100


@ROWS
def test_a_remedy_begins_with_a_command(row: ErrorCode) -> None:
    """Where no command cures, it shows the evidence, or tries again after the correction."""
    assert row.remedy.startswith("`")
    assert not SAYS_NOTHING.search(row.remedy)
    # Only an operator who reads `info` may stop there; every other severity asks for something.
    nothing = "nothing has to be changed" in row.remedy
    assert not nothing or row.severity in {Severity.INFO, Severity.WARNING}
    assert nothing or row.severity is not Severity.INFO


@ROWS
def test_what_a_remedy_has_in_backticks_can_be_pasted_into_a_shell(row: ErrorCode) -> None:
    for command in commands_of(row.remedy):
        words = words_of(command)
        assert words[0] in PROGRAMS
        assert placeholders_of(command) <= set(PLACEHOLDERS)
        if words[0] == "perago":
            parse(["version" if word == "COMMAND" else word for word in words])


@pytest.mark.parametrize(
    "command",
    ["perago chekc M", "perago gc --repo R", "perago fence instal R B", "perago fence verify R"],
    ids=["command", "option", "command of a group", "missing"],
)
def test_a_command_that_perago_does_not_have_is_found(command: str) -> None:
    with pytest.raises(Exception, match=r"No such|Missing"):
        parse(words_of(command))


def test_every_remedy_is_run_by_a_scene_or_says_why_not() -> None:
    listed = [*IN_TABLES, *BY_A_TEST_OF_ITS_OWN, *WITHOUT]
    assert set(listed) == set(error_codes())
    assert len(listed) == len(set(listed))


@ROWS
def test_the_page_of_a_row_exists(row: ErrorCode) -> None:
    path, _, anchor = row.page.partition("#")
    assert (ROOT / path).is_file()
    assert not anchor or anchor in anchors(ROOT / path)


def test_a_letter_is_one_family() -> None:
    pairs = {(row.code[4], row.family) for row in error_codes().values()}
    assert len(pairs) == len({letter for letter, _ in pairs}) == len({name for _, name in pairs})


def test_a_code_is_found_by_its_name() -> None:
    assert find_code("PRG-U001") is error_codes()["PRG-U001"]
    assert find_code("PRG-U999") is None
    assert "did you mean PRG-U001" in str(UnknownCodeError("PRG-U01"))


def test_the_texts_are_read_when_a_code_is_asked_for() -> None:
    """`perago check` and every other command import the table and rarely need it."""
    program = (
        "import sys, perago.app.command_line.reporting, perago.domain.error_codes as codes;"
        "sys.exit(codes.error_codes.cache_info().currsize)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    """`python -m tools.write_reference` writes them."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name]()
