"""Named tuples made in bulk are those that their constructor makes."""

from itertools import repeat
from types import MappingProxyType

from perago.adapters.local.many_tuples import many_tuples
from perago.ports.objects import ObjectEntry


def test_rows_come_out_as_their_constructor_makes_them() -> None:
    none = MappingProxyType[str, str]({})
    made = many_tuples(ObjectEntry, "ab", "xy", (1, 2), (3, 4), repeat("text/plain"), repeat(none))
    assert made == [
        ObjectEntry("a", "x", 1, 3, "text/plain", none),
        ObjectEntry("b", "y", 2, 4, "text/plain", none),
    ]
    assert [one.size for one in made] == [1, 2]
    assert {type(one) for one in made} == {ObjectEntry}


def test_no_rows_are_none() -> None:
    assert many_tuples(ObjectEntry, (), (), (), (), (), ()) == []
