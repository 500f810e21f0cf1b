"""Which trace contexts are taken over from a task's input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.commit_metadata import accept_traceparent, traceparent_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-00"),
        (f"00-{TRACE}-{PARENT}-ff", f"00-{TRACE}-{PARENT}-ff"),
        (f"01-{TRACE}-{PARENT}-01", GOOD),
        (f"cc-{TRACE}-{PARENT}-03-what-comes-later", GOOD),
        (f"cc-{TRACE}-{PARENT}-fe", f"00-{TRACE}-{PARENT}-00"),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"{GOOD}-more", None),
        (f"01-{TRACE}-{PARENT}-01.more", None),
        (f" {GOOD}", None),
        (f"{GOOD}\n", None),
        (f"00-{TRACE[1:]}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}", None),
        ("", None),
        (None, None),
        (7, None),
        ([GOOD], None),
        (GOOD.encode(), None),
        (f"01-{TRACE}-{PARENT}-01-".ljust(512, "x"), GOOD),
        (f"01-{TRACE}-{PARENT}-01-".ljust(513, "x"), None),
        (f"01-{TRACE}-{PARENT}-01-two\nlines", None),
    ],
    ids=[
        "sampled", "not sampled", "flags of version 00 are kept", "later version",
        "later version with more fields", "later flags are dropped", "version ff", "no trace",
        "no parent", "upper case", "version 00 with more fields", "more without a dash",
        "leading space", "trailing newline", "short trace", "no flags", "empty", "absent",
        "a number", "a list", "bytes", "as long as allowed", "longer than allowed",
        "two lines",
    ],
)  # fmt: skip
def test_the_table(value: object, accepted: str | None) -> None:
    assert accept_traceparent(value) == accepted
    assert traceparent_of({"traceparent": value, "params": {}}) == accepted


def test_an_input_without_one_has_none() -> None:
    assert traceparent_of({"params": {"traceparent": GOOD}}) is None


@given(st.binary(min_size=26, max_size=26))
def test_what_was_accepted_is_accepted_again(seed: bytes) -> None:
    digits = seed.hex()
    once = accept_traceparent(f"{digits[:2]}-{digits[2:34]}-{digits[34:50]}-{digits[50:]}")
    assert once is None or (once.startswith("00-") and accept_traceparent(once) == once)
