"""The table of codes, the code and the documents say the same."""

import re
from pathlib import Path

import pytest
from tools.write_reference import PAGES

from perago.domain.error_codes import ERROR_CODES, ErrorCode, UnknownCodeError, find_code

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "src/perago/domain/error_codes"
CODE = re.compile(r"PRG-[A-Z]\d{3}")


def used_codes() -> set[str]:
    """Codes that stand anywhere in the package but in the table."""
    rows = set(TABLE.glob("[!_]*.py"))
    files = (path for path in (ROOT / "src").rglob("*.py") if path not in rows)
    return {code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))}


def test_every_code_that_is_used_is_explained() -> None:
    assert used_codes() - set(ERROR_CODES) == set()


def test_every_code_that_is_explained_is_used() -> None:
    assert set(ERROR_CODES) - used_codes() == set()


@pytest.mark.parametrize("row", ERROR_CODES.values(), ids=lambda row: row.code)
def test_a_row_is_complete(row: ErrorCode) -> None:
    assert CODE.fullmatch(row.code)
    for text in (row.cause, row.remedy, row.text):
        assert text.endswith(".")
        assert "\n" not in text
    assert len(row.cause) < 100


def test_a_code_is_found_by_its_name() -> None:
    assert find_code("PRG-U001") is ERROR_CODES["PRG-U001"]
    assert find_code("PRG-U999") is None
    assert "did you mean PRG-U001" in str(UnknownCodeError("PRG-U01"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    """`python -m tools.write_reference` writes them."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name]()
