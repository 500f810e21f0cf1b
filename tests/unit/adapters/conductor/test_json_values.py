"""What may be sent as JSON, and that everything else is named before anything is sent."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.conductor.json_values import plain_json
from perago.ports.errors import RequestRefusedError

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
) | st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_json_goes_through_unchanged(value: object) -> None:
    assert plain_json(value, "output") == value
    assert json.loads(json.dumps(plain_json(value, "output"), allow_nan=False)) == value


def test_read_only_views_and_tuples_become_plain() -> None:
    value: Mapping[str, object] = MappingProxyType({"a": (1, MappingProxyType({"b": 2}))})
    assert json.dumps(plain_json(value, "output")) == '{"a": [1, {"b": 2}]}'


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, r"output\.rows\[1\] is nan"),
        (math.inf, r"output\.rows\[1\] is inf"),
        (Path("x"), r"output\.rows\[1\] is a PosixPath"),
        (b"bytes", r"output\.rows\[1\] is a bytes"),
        ({1, 2}, r"output\.rows\[1\] is a set"),
        ({7: "x"}, r"output\.rows\[1\] has the key 7 of type int"),
        ("\ud800", r"output\.rows\[1\] holds half a character"),
    ],
    ids=["nan", "infinity", "object", "bytes", "set", "number as key", "lone surrogate"],
)
def test_what_json_cannot_carry_is_refused_with_its_place(value: object, complaint: str) -> None:
    with pytest.raises(RequestRefusedError, match=complaint):
        plain_json({"rows": [0, value]}, "output")
