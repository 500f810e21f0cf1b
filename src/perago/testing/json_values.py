"""Reads of JSON values that came from a server: objects and arrays, empty when absent."""

from collections.abc import Mapping
from typing import cast


def as_object(value: object) -> Mapping[str, object]:
    """The value when it is a JSON object, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """The value when it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []
