"""Whether a failed request is worth another attempt, and how long to wait before it.

Pure: it has no clock and no dice, so every row of it can be tested.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from perago.adapters.lakefs import errors

# Locked, too early, too many requests: nothing was done, and the next try may be answered.
_SERVER_ASKS_TO_WAIT = frozenset({423, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTerms:
    """How long one request is repeated, and how long the pauses between its attempts are.

    The bound is a time and not a number of attempts, because what is waited for is a server that
    starts again or a rollout: five quick attempts are over after a second and a half. It counts
    from the first failure, so that an attempt which waited a minute in silence is still repeated.
    The first pause is that of one lost connection; the longest is how late a worker may find out
    that the server is back.
    """

    seconds_max: float = 60.0
    first_pause_seconds: float = 0.2
    pause_seconds_max: float = 10.0


def is_worth_repeating(failure: errors.Failure) -> bool:
    """Whether another attempt may be answered differently.

    not sent, lost            yes
    408, 499, 5xx             yes, unless the server says what it refuses
    423, 425, 429             yes
    redirect, another 4xx     no
    """
    match failure:
        case errors.NotSent() | errors.Lost():
            return True
        case errors.Refused(status):
            return status in _SERVER_ASKS_TO_WAIT or (
                status >= errors.FIRST_REFUSAL and errors.is_no_answer(failure)
            )


def pause_before_repeating(
    terms: RetryTerms,
    *,
    failures: int,
    seconds_since_first: float,
    asked_for: float | None,
    chance: float,
) -> float | None:
    """Seconds to wait after so many failures in a row; None when it is time to give up.

    `chance` is between 0 and 1. The whole pause is left to it (full jitter), because dozens of
    requests fail at the same moment and would come back at the same moment. What the server asks
    for is waited out, and the jitter comes on top.
    """
    # A float cannot hold 2 to the 1024, and a server may fail quickly for a minute.
    doublings = min(failures - 1, 30)
    ceiling = min(terms.pause_seconds_max, terms.first_pause_seconds * 2.0**doublings)
    pause = chance * ceiling + (asked_for or 0.0)
    return pause if seconds_since_first + pause <= terms.seconds_max else None


def asked_for_seconds(headers: Mapping[str, str]) -> float | None:
    """What `Retry-After` asks for: seconds, or a time, which the answer's own clock measures."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(0.0, (until - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None
