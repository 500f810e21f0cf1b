"""Faults as words on a command line: `crash:before=merge`, `zombie:task=clean,until=accepted`.

Parses; what a fault means is not known here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from perago.testing.faults import (
    Fault,
    crash,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    unavailable,
    zombie,
)

MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {
        "crash": crash,
        "expire-lease": expire_lease,
        "foreign-commit": foreign_commit,
        "lose-answer": lose_answer,
        "lose-request": lose_request,
        "unavailable": unavailable,
        "zombie": zombie,
    }
)
NUMBERS = frozenset({"nth", "attempt"})


def parse_fault(text: str) -> Fault:
    """The fault that a text names, or a ValueError that says what was expected."""
    name, _, rest = text.partition(":")
    maker = MAKERS.get(name)
    if maker is None:
        raise ValueError(f"no fault is called {name!r}; expected one of {', '.join(MAKERS)}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text}: expected key=value, found {part!r}")
        options[key] = int(value) if key in NUMBERS else value
    try:
        return maker(**options)
    except TypeError as error:
        raise ValueError(f"{text}: {error}") from error
