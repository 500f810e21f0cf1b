"""When a request is repeated, and how long the pause before it is."""

import pytest

from perago.adapters.lakefs.errors import Failure, Lost, NotSent, Refused
from perago.adapters.lakefs.retry import (
    RetryTerms,
    asked_for_seconds,
    is_worth_repeating,
    pause_before_repeating,
)

TERMS = RetryTerms(seconds_max=60.0, first_pause_seconds=0.2, pause_seconds_max=10.0)


@pytest.mark.parametrize(
    ("failure", "repeated"),
    [
        (NotSent("refused"), True),
        (Lost("broken", broken=True), True),
        (Lost("a page of a balancer"), True),
        (Refused(307, ""), False),
        (Refused(400, "bad"), False),
        (Refused(403, "denied"), False),
        (Refused(404, "not found"), False),
        (Refused(408, ""), True),
        (Refused(412, "precondition"), False),
        (Refused(423, "locked"), True),
        (Refused(425, "too early"), True),
        (Refused(429, "slow down"), True),
        (Refused(499, ""), True),
        (Refused(500, "internal"), True),
        (Refused(500, "pre-commit hook aborted"), False),
        (Refused(502, "<html>"), True),
        (Refused(503, "slow down"), True),
        (Refused(504, "<html>"), True),
    ],
    ids=str,
)
def test_what_is_worth_repeating(failure: Failure, *, repeated: bool) -> None:
    assert is_worth_repeating(failure) == repeated


def pause(failures: int, since: float, asked_for: float | None, chance: float) -> float | None:
    return pause_before_repeating(
        TERMS, failures=failures, seconds_since_first=since, asked_for=asked_for, chance=chance
    )


@pytest.mark.parametrize(
    ("failures", "since", "asked_for", "chance", "expected"),
    [
        (1, 0.0, None, 1.0, 0.2),
        (1, 0.0, None, 0.0, 0.0),
        (2, 0.2, None, 1.0, 0.4),
        (5, 3.0, None, 0.5, 1.6),
        (20, 30.0, None, 1.0, 10.0),
        (2000, 30.0, None, 1.0, 10.0),
        (1, 0.0, 5.0, 1.0, 5.2),
        (1, 0.0, 61.0, 0.0, None),
        (9, 60.5, None, 0.0, None),
        (9, 55.0, None, 1.0, None),
    ],
    ids=[
        "the first pause",
        "all of it is left to chance",
        "twice as long",
        "half the chance",
        "never longer than the longest",
        "however often it failed",
        "what the server asks for comes first",
        "a server that asks for more than there is",
        "the time is over",
        "the time would be over",
    ],
)
def test_the_pause_before_another_attempt(
    failures: int, since: float, asked_for: float | None, chance: float, expected: float | None
) -> None:
    assert pause(failures, since, asked_for, chance) == expected


def test_an_outage_of_thirty_seconds_is_waited_out_by_every_request() -> None:
    """Whatever chance says, the time counts and not the number of attempts."""
    for chance in (0.01, 0.5, 1.0):
        since, failures = 0.0, 1
        while since < 30.0:
            waited = pause(failures, since, None, chance)
            assert waited is not None
            since, failures = since + waited, failures + 1


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Thu, 19 Nov 2026 07:00:09 GMT"}, None),
        (
            {
                "date": "Thu, 19 Nov 2026 07:00:00 GMT",
                "retry-after": "Thu, 19 Nov 2026 07:00:09 GMT",
            },
            9.0,
        ),
        (
            {
                "date": "Thu, 19 Nov 2026 07:00:00 GMT",
                "retry-after": "Thu, 19 Nov 2026 06:00:00 GMT",
            },
            0.0,
        ),
    ],
    ids=["nothing", "seconds", "spaces", "a word", "less", "no clock", "a time", "a time past"],
)
def test_what_a_server_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert asked_for_seconds(headers) == expected
