"""Compares a registered TaskDef with the one the code builds: field by field, as values.

Fields that the code does not write are the operator's and are left alone. Asks no server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

# Written only when the author sets them, so that their absence is a statement as well.
_OPTIONAL = {
    "description": (None, ""),
    "concurrentExecLimit": (None, 0),
    "rateLimitFrequencyInSeconds": (None, 0, 1),
    "rateLimitPerFrequency": (None, 0),
}
# Written by the server when a definition is stored.
_SERVERS_OWN = frozenset({"createTime", "updateTime", "createdBy", "updatedBy"})
_ABSENT = "(absent)"


@dataclass(frozen=True)
class TaskDefDifference:
    """One field that differs; the path has dots."""

    path: str
    registered: object
    code: object

    def __str__(self) -> str:
        return f"{self.path}: registered {self.registered!r}, code {self.code!r}"


def taskdef_differences(
    registered: Mapping[str, Any], built: Mapping[str, Any]
) -> list[TaskDefDifference]:
    """Return what registering `built` would change, in the order of its fields."""
    found = [
        difference
        for key, value in built.items()
        for difference in _compare(key, registered.get(key, _ABSENT), value)
    ]
    for key, unset in _OPTIONAL.items():
        if key not in built and registered.get(key) not in unset:
            found.append(TaskDefDifference(key, registered[key], _ABSENT))
    return found


def taskdef_to_register(
    registered: Mapping[str, Any] | None, built: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document to store: ours, with the fields of the operator kept."""
    ours = _SERVERS_OWN | set(_OPTIONAL)
    kept = {key: value for key, value in (registered or {}).items() if key not in ours}
    return kept | dict(built)


def _compare(path: str, registered: object, code: object) -> Iterator[TaskDefDifference]:
    there, here = _fields(registered), _fields(code)
    if there is not None and here is not None:
        # Conductor stamps a schema like a definition; deeper down such names are properties.
        stamped = frozenset[str]() if "." in path else _SERVERS_OWN
        for key in dict.fromkeys([*here, *(each for each in there if each not in stamped)]):
            yield from _compare(f"{path}.{key}", there.get(key, _ABSENT), here.get(key, _ABSENT))
    elif registered != code:
        yield TaskDefDifference(path, registered, code)


def _fields(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
