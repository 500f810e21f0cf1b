"""The W3C trace context that a workflow hands to a task, accepted or dropped.

A malformed one is no reason to fail a task: it is as if there was none. Knows no tracer.
"""

import re
from collections.abc import Mapping

INPUT_KEY = "traceparent"
CHARACTERS_MAX = 512

_FIELDS = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?"
)
_SAMPLED = 0x01


def traceparent_of(input_data: Mapping[str, object]) -> str | None:
    """The trace context of a task's input, or None."""
    return accept_traceparent(input_data.get(INPUT_KEY))


def accept_traceparent(value: object) -> str | None:
    """Return the context as version 00 writes it, or None for what is not one.

    A later version is read as far as version 00 knows it, as its standard asks for.
    """
    if not isinstance(value, str) or len(value) > CHARACTERS_MAX:
        return None
    match = _FIELDS.fullmatch(value)
    if match is None:
        return None
    version, trace, parent = match["version"], match["trace"], match["parent"]
    if version == "ff" or not trace.strip("0") or not parent.strip("0"):
        return None
    if version == "00":
        return None if match["more"] else value
    return f"00-{trace}-{parent}-{int(match['flags'], 16) & _SAMPLED:02x}"
