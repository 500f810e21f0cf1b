"""Copies of JSON share nothing that can be changed with what they were made of."""

import pytest

from perago.adapters.memory.system import json_copy

VALUES: tuple[object, ...] = (
    {"a": [1, {"b": None}], "c": "text", "d": 1.5, "e": True},
    [],
    "text",
    None,
    (1, [2]),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_copy_is_equal(value: object) -> None:
    assert json_copy(value) == value


def test_changing_a_copy_changes_nothing_else() -> None:
    inner: list[object] = [1]
    value: dict[str, object] = {"list": inner, "objects": [{"deep": inner}]}
    copied = json_copy(value)
    inner.append(2)
    assert copied == {"list": [1], "objects": [{"deep": [1]}]}
