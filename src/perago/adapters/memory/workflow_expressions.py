"""Input expressions as the server resolves them: `${workflow.input.x}`, `${ref.output.y}`.

A value that is one expression keeps its type; an expression inside a text is written into it; what
does not exist is null. Resolved values are data: an expression inside one is not resolved again.
Must not know where the documents come from.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from perago.ports.errors import RequestRefusedError

Document: TypeAlias = Mapping[str, object]
Lookup: TypeAlias = Callable[[str], object]

_EXPRESSION = re.compile(r"(?P<escaped>\$)?\$\{(?P<path>[^{}]*)\}")
_SEGMENT = re.compile(
    r"\.?(?P<name>[^.\[\]]+)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
)
_MISSING = object()
PLAIN_FLOAT_MIN = 1e-3
PLAIN_FLOAT_LIMIT = 1e7


def resolve(template: object, lookup: Lookup) -> object:
    """Resolve every expression in a template; `lookup` finds a document by its first name."""
    if isinstance(template, str):
        return _resolve_text(template, lookup)
    if isinstance(template, Mapping):
        return {key: resolve(value, lookup) for key, value in template.items()}
    if isinstance(template, Sequence):
        return [resolve(value, lookup) for value in template]
    return template


def read_path(path: str, lookup: Lookup) -> object:
    """Find one value by its path; None when any step of it is missing."""
    head, *steps = _segments(path)
    value: object = lookup(str(head))
    for step in steps:
        value = _step(value, step)
        if value is _MISSING:
            return None
    return value


def as_text(value: object) -> str:
    """A value as the server writes it into a text (Java's `toString`)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_text(item) for item in value) + "]"
    if isinstance(value, float):
        return _float_as_text(value)
    return str(value)


def expressions_in(template: object) -> Iterator[list[str | int]]:
    """The paths of all expressions in a template, as their steps."""
    if isinstance(template, str):
        for match in _EXPRESSION.finditer(template):
            if not match["escaped"]:
                yield _segments(match["path"])
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from expressions_in(value)
    elif isinstance(template, Sequence):
        for value in template:
            yield from expressions_in(value)


def _resolve_text(text: str, lookup: Lookup) -> object:
    whole = _EXPRESSION.fullmatch(text)
    if whole is not None and whole["escaped"] is None:
        return read_path(whole["path"], lookup)

    def write(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        return as_text(read_path(match["path"], lookup))

    return _EXPRESSION.sub(write, text)


def _segments(path: str) -> list[str | int]:
    found: list[str | int] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None or match["name"] == "*" or (match["name"] or "").endswith("()"):
            raise RequestRefusedError(
                f"expression ${{{path}}} is more than names and indexes, which is all the "
                "in-memory Conductor resolves; run it on a real server"
            )
        if match["index"] is not None:
            found.append(int(match["index"]))
        else:
            found.append(match["key"] if match["name"] is None else match["name"])
        at = match.end()
    return found or [""]


def _step(value: object, step: str | int) -> object:
    if isinstance(step, int):
        if isinstance(value, list | tuple) and -len(value) <= step < len(value):
            return value[step]
        return _MISSING
    if isinstance(value, Mapping):
        return value.get(step, _MISSING)
    return _MISSING


def _float_as_text(value: float) -> str:
    """Java's form: plain between a thousandth and ten million, else with an exponent."""
    if value == 0 or PLAIN_FLOAT_MIN <= abs(value) < PLAIN_FLOAT_LIMIT:
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
