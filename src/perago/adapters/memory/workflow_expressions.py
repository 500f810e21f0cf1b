"""Expressions of Conductor's inputs and of its loop conditions.

`resolve` reads `${workflow.input.x}` and `${ref.output.y}` as the server does: a value that is one
expression keeps its type, what does not exist is null, and a resolved value is not resolved again.
`holds` knows the comparisons of loop conditions.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from perago.ports.errors import RequestRefusedError

Document: TypeAlias = Mapping[str, object]
Lookup: TypeAlias = Callable[[str], object]

_EXPRESSION = re.compile(r"(?P<escaped>\$)?\$\{(?P<path>[^{}]*)\}")
_SEGMENT = re.compile(
    r"\.?(?P<name>[^.\[\]]+)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
)
_MISSING = object()  # not None: null is a value that can be there
# Between these `Double.toString` of Java, the server's language, writes no exponent.
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


_IF = re.compile(
    r"^\s*if\s*\((?P<test>.*)\)\s*\{\s*true;?\s*\}\s*else\s*\{\s*false;?\s*\}\s*$", re.DOTALL
)
_COMPARISON = re.compile(
    r"^(?P<left>.+?)\s*(?P<sign>===|!==|==|!=|<=|>=|<|>)\s*(?P<right>.+)$", re.DOTALL
)
_SIGNS: Mapping[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
    "!==": operator.ne,
}
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(condition: str, lookup: Lookup) -> bool:
    """Whether a condition is true of the documents."""
    found = _IF.match(condition)
    test = condition.strip().rstrip(";") if found is None else found["test"]
    return any(
        all(_compare(part.strip(), lookup) for part in choice.split("&&"))
        for choice in test.split("||")
    )


def _compare(text: str, lookup: Lookup) -> bool:
    bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    found = _COMPARISON.match(bare.strip())
    if found is None:
        return bool(_value(bare.strip(), lookup))
    left, right = _value(found["left"], lookup), _value(found["right"].strip(), lookup)
    if found["sign"] in _SIGNS:
        return _SIGNS[found["sign"]](left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _ORDERS[found["sign"]](left, right)
    return False  # JavaScript: a comparison with what is no number is false


def _value(text: str, lookup: Lookup) -> object:
    if text.startswith("$."):
        return read_path(text[2:], lookup)
    try:
        return json.loads(text.replace("'", '"'))
    except ValueError as error:
        raise RequestRefusedError(
            f"loop condition: expected comparisons of `$.name['key']` with values, found {text!r}; "
            "the in-memory Conductor knows no more JavaScript"
        ) from error
