"""Results with fields that are read in another form than they are written in: JSON, base 64."""

import json
from typing import Any, cast

import jsonschema
import pytest
from pydantic import Base64Bytes, Base64Str, BaseModel, Field, Json, create_model

from perago import TaskDefinition, build_taskdef
from perago.app.authoring.envelope import check_stored_result, validate_result
from perago.domain.errors import StoredResultError


class Plain(BaseModel):
    """JSON text at the top, bare and with a type."""

    numbers: Json[list[int]]
    anything: Json[Any]


BARE = create_model("Bare", anything=(cast("Any", Json), ...))


class Inside(BaseModel):
    """JSON text in lists, dictionaries and unions."""

    each: list[Json[int]]
    named: dict[str, Json[int]] = {}
    maybe: Json[int] | None = None


class Aliased(BaseModel):
    """JSON text under another name."""

    numbers: Json[list[int]] = Field(alias="theNumbers")


class Around(BaseModel):
    """Models with JSON text in a model."""

    one: Aliased
    more: list[Plain] = []
    perhaps: Plain | None = None


class Encoded(BaseModel):
    """Base 64, whose values often look like base 64 themselves."""

    text: Base64Str
    data: Base64Bytes
    several: list[Base64Str] = []


PLAIN = Plain.model_validate({"numbers": "[1, 2]", "anything": '"1"'})
ALIASED = Aliased.model_validate({"theNumbers": "[3]"})
ROWS: list[tuple[BaseModel, dict[str, Any]]] = [
    (PLAIN, {"numbers": [1, 2], "anything": "1"}),
    (
        Inside.model_validate({"each": ["1", "2"], "named": {"a": "3"}, "maybe": "4"}),
        {"each": [1, 2], "named": {"a": 3}, "maybe": 4},
    ),
    (Inside.model_validate({"each": []}), {"each": [], "named": {}, "maybe": None}),
    (BARE.model_validate({"anything": "[5]"}), {"anything": [5]}),
    (ALIASED, {"theNumbers": [3]}),
    (
        Around(one=ALIASED, more=[PLAIN], perhaps=PLAIN),
        {
            "one": {"theNumbers": [3]},
            "more": [{"numbers": [1, 2], "anything": "1"}],
            "perhaps": {"numbers": [1, 2], "anything": "1"},
        },
    ),
    (
        Encoded.model_validate({"text": "YWJjZA==", "data": b"YWJjZA==", "several": ["YWJjZA=="]}),
        {"text": "YWJjZA==", "data": "YWJjZA==", "several": ["YWJjZA=="]},
    ),
]
IDS = ["top", "inside", "empty", "bare", "alias", "nested", "base 64"]


def definition(model: type[BaseModel]) -> TaskDefinition:
    return TaskDefinition("n", "o", print, model, model)


@pytest.mark.parametrize(("instance", "written"), ROWS, ids=IDS)
def test_an_instance_is_written_as_its_values_and_as_the_schema_says(
    instance: BaseModel, written: dict[str, Any]
) -> None:
    task = definition(type(instance))
    assert validate_result(task, instance) == written
    schema = build_taskdef(task)["outputSchema"]["data"]
    jsonschema.validate({"result": written}, schema)


@pytest.mark.parametrize(("instance", "written"), ROWS, ids=IDS)
def test_a_result_that_was_stored_with_a_decision_can_be_resumed(
    instance: BaseModel, written: dict[str, Any]
) -> None:
    check_stored_result(definition(type(instance)), json.loads(json.dumps(written)))


def test_a_stored_result_that_the_model_would_not_write_is_refused() -> None:
    with pytest.raises(StoredResultError, match=r"numbers\.0"):
        check_stored_result(definition(Plain), {"numbers": ["x"], "anything": 1})


def test_a_dictionary_has_the_text_as_in_0_6_1() -> None:
    task = definition(Plain)
    given = {"numbers": "[1]", "anything": "2"}
    assert validate_result(task, given) == {"numbers": [1], "anything": 2}


def test_a_value_that_was_changed_to_a_wrong_one_is_refused_with_its_path() -> None:
    changed = PLAIN.model_copy(update={"numbers": ["x"]})
    with pytest.raises(ValueError, match=r"result\.numbers\.0"):
        validate_result(definition(Plain), changed)
