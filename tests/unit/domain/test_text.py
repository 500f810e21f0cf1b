"""Secrets in every form that text is given before it is written.

Text from elsewhere never becomes an order to a terminal.
"""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.text import MASK, NO_SECRETS, Secrets, plain, plain_lines

AWKWARD = 's3cr"et\\key\né/+='


@pytest.mark.parametrize(
    "written",
    [
        AWKWARD,
        repr({"key": AWKWARD}),
        json.dumps({"key": AWKWARD}),
        json.dumps({"key": AWKWARD}, ensure_ascii=False),
        f"https://key:{quote(AWKWARD, safe='')}@host",
    ],
)
def test_a_secret_is_masked_however_it_was_written(written: str) -> None:
    masked = Secrets.of([AWKWARD]).masked(written)
    assert "s3cr" not in masked
    assert MASK in masked


@given(st.text(min_size=4), st.text(), st.text())
def test_no_secret_is_left_in_a_value_that_is_encoded_afterwards(
    secret: str, before: str, after: str
) -> None:
    value = {"a": [before + secret + after, {secret: 1}], "b": (secret,)}
    masked = Secrets.of([secret]).masked_value(value)
    texts = json.dumps(masked, ensure_ascii=True), json.dumps(masked, ensure_ascii=False)
    found = json.loads(texts[0])
    if secret not in before + MASK + after and secret not in MASK:
        assert secret not in found["b"][0]
        assert found["b"] == [MASK]


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    assert Secrets.of(["hunter2", "hunter2-second"]).masked("hunter2-second") == MASK


def test_what_is_too_short_to_be_a_secret_stays() -> None:
    assert Secrets.of(["abc", ""]).masked("abcabc") == "abcabc"


def test_values_without_a_secret_are_left_as_they_are() -> None:
    value = {"when": object(), "text": "plain"}
    assert NO_SECRETS.masked_value(value) is value
    assert Secrets.of(["hunter2"]).masked_value(value) == value


def test_a_secret_is_not_in_the_repr_of_what_masks_it() -> None:
    assert "hunter2" not in repr(Secrets.of(["hunter2"]))


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
