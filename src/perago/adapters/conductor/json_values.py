"""Values that JSON can carry, checked before anything is sent.

The server answers NaN with 500, and a value that JSON cannot carry must not arrive as another.
Must not know what the values mean.
"""

import math
from collections.abc import Mapping, Sequence
from typing import cast

from perago.ports.errors import RequestRefusedError


def plain_json(value: object, where: str) -> object:
    """A copy made of plain dictionaries and lists; raises RequestRefusedError with the path."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return _text(value, where)
        case float():
            return _finite(value, where)
        case Mapping():
            entries = cast("Mapping[object, object]", value)
            return {_key(k, where): plain_json(v, f"{where}.{k}") for k, v in entries.items()}
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return [plain_json(item, f"{where}[{i}]") for i, item in enumerate(items)]
        case _:
            raise RequestRefusedError(
                f"{where} is a {type(value).__name__}, which JSON cannot carry; nothing was sent; "
                "return text, numbers, booleans, lists and dictionaries"
            )


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise RequestRefusedError(
            f"{where} is {value}, which JSON cannot carry; nothing was sent; "
            "return a finite number or None"
        )
    return value


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestRefusedError(
            f"{where} holds half a character ({error.reason}); nothing was sent; "
            "return text that is valid Unicode"
        ) from error
    return value


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise RequestRefusedError(
            f"{where} has the key {key!r} of type {type(key).__name__}; nothing was sent; "
            "keys of JSON objects are text"
        )
    return _text(key, where)
