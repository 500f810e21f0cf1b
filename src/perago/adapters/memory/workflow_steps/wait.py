"""WAIT: done when its duration is over; without one it waits for somebody to complete it."""

import re

from perago.adapters.memory.conductor_rows import Spec, TaskRow
from perago.adapters.memory.workflow_walk import Walk, kind_of
from perago.domain.attempt import AttemptStatus
from perago.ports.errors import RequestRefusedError

_DURATION = re.compile(
    r"\s*(?:(?P<d>\d+)\s*(?:days|day|d))?\s*(?:(?P<h>\d+)\s*(?:hours|hour|hrs|hr|h))?"
    r"\s*(?:(?P<m>\d+)\s*(?:minutes|minute|mins|min|m))?"
    r"\s*(?:(?P<s>\d+)\s*(?:seconds|second|secs|sec|s))?\s*",
    re.IGNORECASE,
)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def walk_wait(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Begin to wait; pass when the time has come."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else walk.schedule(spec, iteration, AttemptStatus.IN_PROGRESS)
    wakes = wakes_at_ms(row)
    if wakes is not None and wakes <= walk.state.now_ms:
        row.status = AttemptStatus.COMPLETED
    return row.lets_pass


def wakes_at_ms(row: TaskRow) -> int | None:
    """When an open WAIT is over; None for other rows and for those that wait for somebody."""
    duration = row.input_data.get("duration")
    if kind_of(row.spec) != "WAIT" or row.status.is_terminal or duration is None:
        return None
    return row.start_time + 1000 * duration_seconds(str(duration))


def duration_seconds(text: str) -> int:
    """The seconds of `2 days 3 hours 4 minutes 5 seconds`, each part optional."""
    found = _DURATION.fullmatch(text)
    if found is None or not text.strip():
        raise RequestRefusedError(f"WAIT: {text!r} is no duration such as `10 seconds`")
    return sum(int(found[unit] or 0) * seconds for unit, seconds in _SECONDS.items())
