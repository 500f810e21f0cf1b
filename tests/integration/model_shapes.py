"""Shapes of models with the values that fit them: what schemas and results are judged on."""

import datetime as dt
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar, cast

from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    computed_field,
    create_model,
    field_serializer,
)
from typing_extensions import TypedDict

Item = TypeVar("Item")
Values = st.SearchStrategy[Any]

texts = st.text(max_size=8)
numbers = st.integers(-5, 5)
floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(-99, 99, places=2)


class Colour(enum.Enum):
    """An enumeration."""

    RED = "r"
    ONE = 1


class Cat(BaseModel):
    """One member of a union."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """The other."""

    kind: Literal["dog"]
    name: str


class Inner(BaseModel):
    """Inside others."""

    a: int
    b: str = "x"


class Child(Inner):
    """Inherits."""

    c: bool


class Box(BaseModel, Generic[Item]):
    """Generic."""

    item: Item
    items: list[Item] = []


class Node(BaseModel):
    """Refers to itself."""

    value: int
    below: list["Node"] = []


class Person(BaseModel):
    """Half of a cycle."""

    pet: "Pet | None" = None


class Pet(BaseModel):
    """The other half."""

    owner: Person | None = None
    name: str


class Row(TypedDict):
    """A typed dictionary."""

    a: int
    b: NotRequired[str]


@dataclass
class Record:
    """A dataclass."""

    a: int
    b: str = "x"


class Aliased(BaseModel):
    """Aliased on both sides."""

    size: int = Field(alias="sizeBytes")
    inner: Inner | None = Field(default=None, alias="innerPart")


class OneSided(BaseModel):
    """Read under one name, written under another."""

    size: int = Field(validation_alias=AliasChoices("n", "size"))


class Computed(BaseModel):
    """Writes more than it reads."""

    a: int

    @computed_field
    def double(self) -> int:
        """Twice as much."""
        return self.a * 2


class Percent(BaseModel):
    """Writes text where it reads a number."""

    share: float

    @field_serializer("share")
    def _percent(self, share: float) -> str:
        return f"{share:.0%}"


@dataclass(frozen=True)
class ModelShape:
    """A model, and values for it by the names of its fields."""

    name: str
    model: type[BaseModel]
    values: Values
    reads_what_it_writes: bool = True


def fields(name: str, values: dict[str, Values], **annotations: Any) -> ModelShape:  # noqa: ANN401
    """Return a model with one field for each keyword; a tuple has a default."""
    make = cast("Callable[..., type[BaseModel]]", create_model)
    definitions: dict[str, Any] = {}
    for field, each in annotations.items():
        definitions[field] = each if isinstance(each, tuple) else (each, ...)
    return ModelShape(name, make(name, **definitions), st.fixed_dictionaries(values))


def of(
    model: type[BaseModel], *, reads_what_it_writes: bool = True, **values: Values
) -> ModelShape:
    """Return a model that has a class of its own."""
    strategy = st.fixed_dictionaries(values)
    return ModelShape(model.__name__, model, strategy, reads_what_it_writes)


inners = st.fixed_dictionaries({"a": numbers, "b": texts})
cats = st.fixed_dictionaries({"kind": st.just("cat"), "lives": numbers})
dogs = st.fixed_dictionaries({"kind": st.just("dog"), "name": texts})
pets = cats | dogs
nodes: Values = st.recursive(
    st.fixed_dictionaries({"value": numbers}),
    lambda below: st.fixed_dictionaries({"value": numbers, "below": st.lists(below, max_size=2)}),
    max_leaves=4,
)

SHAPES = [
    fields(
        "Scalars",
        {"a": numbers, "b": texts, "c": floats, "d": st.booleans()},
        a=int,
        b=str,
        c=float,
        d=bool,
    ),
    fields("Defaults", {"a": numbers}, a=(int, 1), b=(str, "x"), c=(list[int], [])),
    fields(
        "Optional",
        {"a": numbers | st.none(), "b": texts | st.none()},
        a=int | None,
        b=(str | None, None),
    ),
    fields(
        "Nested", {"one": inners, "many": st.lists(inners, max_size=2)}, one=Inner, many=list[Inner]
    ),
    fields("Named", {"by": st.dictionaries(texts, inners, max_size=2)}, by=dict[str, Inner]),
    fields("Counted", {"by": st.dictionaries(texts, numbers, max_size=2)}, by=dict[str, int]),
    fields("Free", {"any": st.dictionaries(texts, texts, max_size=2)}, any=dict[str, Any]),
    fields(
        "Deep",
        {"d": st.dictionaries(texts, st.lists(inners, max_size=1), max_size=1)},
        d=dict[str, list[Inner]],
    ),
    of(Child, a=numbers, b=texts, c=st.booleans()),
    fields("GenericOfInt", {"box": st.fixed_dictionaries({"item": numbers})}, box=Box[int]),
    fields(
        "GenericOfModel",
        {"box": st.fixed_dictionaries({"item": inners, "items": st.lists(inners, max_size=1)})},
        box=Box[Inner],
    ),
    fields("Union", {"pet": pets}, pet=Cat | Dog),
    fields("Discriminated", {"pet": pets}, pet=Annotated[Cat | Dog, Field(discriminator="kind")]),
    fields(
        "ManyPets",
        {"pets": st.lists(pets, max_size=3)},
        pets=list[Annotated[Cat | Dog, Field(discriminator="kind")]],
    ),
    fields("ScalarUnion", {"a": numbers | texts}, a=int | str),
    fields(
        "Enums",
        {"a": st.sampled_from(Colour), "b": st.lists(st.sampled_from(Colour), max_size=2)},
        a=Colour,
        b=list[Colour],
    ),
    fields("Literals", {"a": st.sampled_from([1, "x", None])}, a=(Literal[1, "x"] | None)),
    fields(
        "Dates",
        {"d": st.dates(), "t": st.datetimes(timezones=st.just(dt.UTC))},
        d=dt.date,
        t=dt.datetime,
    ),
    fields(
        "Durations",
        {"d": st.timedeltas(dt.timedelta(0), dt.timedelta(9)), "t": st.times()},
        d=dt.timedelta,
        t=dt.time,
    ),
    fields(
        "Decimals",
        {"a": decimals, "b": decimals.map(abs)},
        a=Decimal,
        b=Annotated[Decimal, Field(ge=0)],
    ),
    fields("Identifiers", {"u": st.uuids(), "p": st.just(Path("a/b"))}, u=uuid.UUID, p=Path),
    fields(
        "Bounded",
        {"a": st.integers(1, 8), "b": st.just("abc")},
        a=Annotated[int, Field(gt=0, lt=9)],
        b=Annotated[str, Field(pattern="^a", min_length=2)],
    ),
    fields(
        "Lists",
        {"a": st.lists(numbers, min_size=1, max_size=3)},
        a=Annotated[list[int], Field(min_length=1, max_length=3)],
    ),
    fields(
        "Tuples",
        {"a": st.tuples(numbers, texts), "b": st.lists(numbers, max_size=2)},
        a=tuple[int, str],
        b=tuple[int, ...],
    ),
    fields("Sets", {"a": st.sets(numbers, max_size=3)}, a=set[int]),
    fields("Typed", {"row": st.fixed_dictionaries({"a": numbers}, optional={"b": texts})}, row=Row),
    fields("Dataclass", {"row": st.builds(Record, numbers, texts)}, row=Record),
    of(Aliased, size=numbers, inner=inners | st.none()),
    of(OneSided, size=numbers, reads_what_it_writes=False),
    of(Percent, share=floats, reads_what_it_writes=False),
    ModelShape("Recursive", Node, nodes),
    fields(
        "RecursiveInside",
        {"node": nodes, "maybe": nodes | st.none()},
        node=Node,
        maybe=(Node | None, None),
    ),
    of(Pet, name=texts, owner=st.none() | st.just({"pet": {"name": "x", "owner": None}})),
    fields(
        "KeywordNames",
        {"title": texts, "properties": texts, "items": numbers},
        title=str,
        properties=str,
        items=int,
    ),
    of(Computed, a=numbers, reads_what_it_writes=False),
]
