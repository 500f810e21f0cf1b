"""Models inside models: which carry a ConfigDict, which are a RootModel, what they declare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from perago.app.authoring.contract_schema import declared_names
from perago.app.authoring.task_definition import (
    TaskDefinition,
    task_models_with_config,
    validate_no_root_task_models,
)
from perago.domain.errors import TaskDefinitionError

Item = TypeVar("Item")


class Numbers(RootModel[list[int]]):
    """A root model of a list."""


class Text(RootModel[str]):
    """A root model of a scalar."""


class Open(BaseModel):
    """Carries a ConfigDict."""

    model_config = ConfigDict(extra="allow")
    x: int = 1


class Child(Open):
    """Inherits one."""


class ByKeyword(BaseModel, extra="forbid"):
    """Is configured in its class statement."""


class EmptyConfig(BaseModel):
    """Configures nothing."""

    model_config = ConfigDict()


class Box(BaseModel, Generic[Item]):
    """A generic model."""

    item: Item


class Everything(BaseModel):
    """Holds all of them, some deep inside."""

    root: Numbers | None = None
    deep: list[dict[str, tuple[Open, ...]]]
    boxed: Box[Text]
    child: Child
    keyword: ByKeyword
    plain: EmptyConfig
    callback: Callable[[int], Any] = print


class Result(BaseModel):
    """A configured result."""

    model_config = ConfigDict(frozen=True)


class Tree(BaseModel):
    """Refers to itself."""

    below: list["Tree"] = []


def made_of(params: type[BaseModel], result: type[BaseModel] = Result) -> TaskDefinition:
    return TaskDefinition("n", "o", print, params, result)


def test_configured_models_are_found_wherever_they_are() -> None:
    found = task_models_with_config(made_of(Everything))
    assert found == [ByKeyword, Child, Open, Result]


@pytest.mark.parametrize(("params", "names"), [(Everything, "Text, Numbers"), (Numbers, "Numbers")])
def test_root_models_are_refused_by_name(params: type[BaseModel], names: str) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        validate_no_root_task_models(made_of(params))
    assert str(caught.value) == (
        f"Pydantic RootModel on task model(s) {names} is not supported;"
        " Perago task contracts must use ordinary BaseModel object models."
    )


def test_models_that_contain_themselves_are_ordinary() -> None:
    validate_no_root_task_models(made_of(Tree))


class Record(TypedDict):
    """A typed dictionary."""

    typed: int


@dataclass
class Row:
    """A dataclass."""

    column: int


class Named(BaseModel):
    """Declares names in every way there is."""

    own: int = Field(alias="first")
    choice: int = Field(validation_alias=AliasChoices("second", AliasPath("third", 0)))
    row: Row
    record: Record
    tree: Tree


def test_names_are_fields_and_aliases_of_all_that_a_model_is_made_of() -> None:
    assert declared_names(Named) == {
        *("own", "first", "choice", "second", "third", "row", "record", "typed"),
        *("column", "tree", "below"),
    }
