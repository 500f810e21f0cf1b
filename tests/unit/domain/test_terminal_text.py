"""Text from elsewhere never becomes an order to a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.text import plain, plain_lines

ORDERS = [*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2028", "\ud800"]


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(ORDERS))))
def test_nothing_in_a_plain_line_moves_the_cursor_or_cannot_be_written(text: str) -> None:
    shown = plain(text)
    assert not (set(shown) - {"\t"}) & set(ORDERS)
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r", r"two\nlines\r"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\x9b2J", r"\x9b2J"),  # the same order in one character
        ("un\tdeux\u00a0: \u202fça", "un\tdeux\u00a0: \u202fça"),
        ("half \udcff", r"half \udcff"),
    ],
)
def test_what_is_not_printable_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_lines_of_ours_stay_lines() -> None:
    assert plain_lines("one\ntwo\x1b[A\r\nthree") == "one\ntwo\\x1b[A\\r\nthree"
