"""The part of JavaScript that loop conditions are written in: comparisons, `&&` and `||`.

`if (...) { true; } else { false; }` and the bare condition mean the same. Must not know loops.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from perago.adapters.memory.workflow_expressions import read_path
from perago.ports.errors import RequestRefusedError

Lookup: TypeAlias = Callable[[str], object]

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
