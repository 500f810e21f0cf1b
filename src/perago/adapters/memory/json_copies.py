"""Copies of JSON values: what a server keeps is nobody else's to change.

A fraction of the cost of `copy.deepcopy`, which looks for cycles that JSON cannot have.
"""

from copy import deepcopy
from typing import Any, TypeVar

Json = TypeVar("Json")
SCALARS = (str, int, float, bool, type(None))


def json_copy(value: Json) -> Json:
    """The value with every object and array in it made anew."""
    copied: Json = _copy(value)
    return copied


def _copy(value: Any) -> Any:  # noqa: ANN401 - JSON has no type of its own
    kind: type[object] = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:
        return {name: _copy(each) for name, each in value.items()}
    if kind is list:
        return [_copy(each) for each in value]
    return deepcopy(value)
