"""Schemas of contracts: what is stripped, inlined, closed, opened, and kept recursive."""

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
    field_serializer,
)

from perago.app.authoring.contract_schema import schema_for_model, schema_for_result

Item = TypeVar("Item")
CLOSED = {"type": "object", "additionalProperties": False}


class Colour(enum.Enum):
    """Its docstring is kept, it describes a value."""

    RED = "r"


class Inner(BaseModel):
    """This docstring describes the class and is stripped."""

    model_config = ConfigDict(title="Titled", json_schema_extra={"examples": [1]})

    title: str = Field(title="A title", description="kept", examples=["a"])


@dataclass
class Row:
    """Stripped as well."""

    column: int = 1


class Cat(BaseModel):
    """One member of a union."""

    kind: Literal["cat"]


class Dog(BaseModel):
    """The other member."""

    kind: Literal["dog"]


class Box(BaseModel, Generic[Item]):
    """A generic model."""

    item: Item


class Node(BaseModel):
    """Refers to itself."""

    default: list["Node"] = []


class Holder(BaseModel):
    """Refers to a recursive model twice."""

    node: Node
    maybe: Node | None = None


class Person(BaseModel):
    """Half of a cycle of two."""

    pet: "Pet | None" = None


class Pet(BaseModel):
    """The other half."""

    owner: Person | None = None


INNER = CLOSED | {
    "properties": {"title": {"description": "kept", "examples": ["a"], "type": "string"}},
    "required": ["title"],
}


def fields(**annotations: Any) -> type[BaseModel]:  # noqa: ANN401  # annotations are values
    """Make a model with one field for each keyword."""
    namespace = {"__annotations__": annotations, "__module__": __name__}
    return type("Model", (BaseModel,), namespace)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (Inner, INNER),
        (list[Inner], {"items": INNER, "type": "array"}),
        (dict[str, Inner], {"additionalProperties": INNER, "type": "object"}),
        (dict[str, int], {"additionalProperties": {"type": "integer"}, "type": "object"}),
        (dict[str, Any], {"additionalProperties": True, "type": "object"}),
        (Row, CLOSED | {"properties": {"column": {"default": 1, "type": "integer"}}}),
        (
            Box[int],
            CLOSED | {"properties": {"item": {"type": "integer"}}, "required": ["item"]},
        ),
        (
            Annotated[Inner, Field(description="of the property", title="gone")],
            INNER | {"description": "of the property"},
        ),
        (
            Colour,
            {
                "description": "Its docstring is kept, it describes a value.",
                "enum": ["r"],
                "type": "string",
            },
        ),
        (dt.date, {"format": "date", "type": "string"}),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {
                "discriminator": {
                    "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
                    "propertyName": "kind",
                },
                "oneOf": [
                    CLOSED
                    | {
                        "properties": {"kind": {"const": kind, "type": "string"}},
                        "required": ["kind"],
                    }
                    for kind in ("cat", "dog")
                ],
            },
        ),
    ],
    ids=str,
)
def test_the_schema_of_one_field(annotation: object, schema: dict[str, object]) -> None:
    assert schema_for_model(fields(field=annotation)) == CLOSED | {
        "properties": {"field": schema},
        "required": ["field"],
    }


def test_objects_are_opened_at_every_level_together() -> None:
    opened = schema_for_model(fields(inner=Inner, free=dict[str, int]), allow_extra=True)
    assert opened["additionalProperties"] is True
    assert opened["properties"]["inner"]["additionalProperties"] is True
    assert opened["properties"]["free"]["additionalProperties"] == {"type": "integer"}


class Awkward(BaseModel):
    """Has fields and defaults that look like keywords of a schema."""

    title: str = "t"
    properties: dict[str, str] = {"title": "a value, not a keyword"}
    deep: dict[str, dict[str, str]] = {"properties": {"title": "kept"}}
    ref: Inner = Field(Inner(title="x"), alias="$ref", examples=[{"title": "kept"}])


def test_names_and_values_that_look_like_keywords_are_left_alone() -> None:
    properties = schema_for_model(Awkward)["properties"]
    assert properties["title"] == {"default": "t", "type": "string"}
    assert properties["properties"]["default"] == {"title": "a value, not a keyword"}
    assert properties["deep"]["default"] == {"properties": {"title": "kept"}}
    assert properties["$ref"]["examples"] == [{"title": "kept"}]
    assert properties["$ref"]["default"] == {"title": "x"}


@pytest.mark.parametrize(
    ("model", "definitions"),
    [(Node, {"Node"}), (Holder, {"Node"}), (Person, {"Person", "Pet"}), (Inner, set[str]())],
)
def test_only_recursive_models_stay_definitions(
    model: type[BaseModel], definitions: set[str]
) -> None:
    schema = schema_for_model(model)
    assert set(schema.get("$defs", {})) == definitions
    assert all(each["additionalProperties"] is False for each in schema.get("$defs", {}).values())


class Computed(BaseModel):
    """Writes more than it reads."""

    count: int = 1

    @computed_field
    def double(self) -> int:
        """Twice the count."""
        return self.count * 2


class WrittenUnderItsName(BaseModel):
    """Reads an alias and writes the field's name."""

    count: int = Field(validation_alias=AliasChoices("n", "number"))


class WrittenDifferently(BaseModel):
    """Writes text where it reads a number."""

    share: float

    @field_serializer("share")
    def _percent(self, share: float) -> str:
        return f"{share:.0%}"


class Aliased(BaseModel):
    """Reads and writes one alias."""

    count: int = Field(default=1, alias="n")


@pytest.mark.parametrize(
    ("model", "properties", "required"),
    [
        (
            Computed,
            {
                "count": {"default": 1, "type": "integer"},
                "double": {
                    "description": "Twice the count.",
                    "readOnly": True,
                    "type": "integer",
                },
            },
            ["double"],
        ),
        (WrittenUnderItsName, {"count": {"type": "integer"}}, ["count"]),
        (WrittenDifferently, {"share": {"type": "string"}}, ["share"]),
        (Aliased, {"n": {"default": 1, "type": "integer"}}, None),
    ],
)
def test_a_result_is_described_as_it_is_written(
    model: type[BaseModel], properties: dict[str, object], required: list[str] | None
) -> None:
    schema = schema_for_result(model)
    assert schema["properties"] == properties
    assert schema.get("required") == required
