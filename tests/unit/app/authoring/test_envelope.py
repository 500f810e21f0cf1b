"""What goes in and comes out of a task: keys, params, results, aliases, and no values in texts."""

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, computed_field, field_validator

from perago import build_workspace_free_task_output, build_workspace_task_output
from perago.app.authoring.envelope import (
    check_stored_result,
    read_params,
    read_workspace_input,
    validate_result,
    workspace_task_output,
)
from perago.app.authoring.failure import failure_reason
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceSpec
from perago.domain.errors import ResultNotStorableError, StoredResultError, TaskInputError

SECRET = "hunter2-token"
PLACE = {"repository": "songs", "branch": "main", "refType": "commit", "ref": "c1"}
BOTH = "workspace task input must contain workspace and params"
ONLY_PARAMS = "workspace-free task input must contain params"


class Cat(BaseModel):
    """One member of a union."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """The other, with the same fields."""

    kind: Literal["dog"]
    lives: int


class Params(BaseModel):
    """Every way in which a value can be wrong."""

    count: int
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    free: dict[str, int] = {}
    colour: Literal["red"] = "red"
    checked: str = "fine"
    below: "Params | None" = None

    @field_validator("checked")
    @classmethod
    def _is_fine(cls, value: str) -> str:
        if value != "fine":
            raise ValueError(f"{value!r} is not fine")
        return value


class Inner(BaseModel):
    """Aliased, inside the result."""

    size: int = Field(alias="sizeBytes")


class Result(BaseModel):
    """Aliased, computed, nested, with values that JSON writes as text."""

    total: int = Field(default=0, alias="grandTotal")
    inner: Inner | None = None
    many: dict[str, list[Inner]] = {}
    either: Cat | Dog | None = None
    day: dt.date | None = None
    price: Decimal | None = None
    share: float = 0.0

    @computed_field
    def double(self) -> int:
        """Twice the total."""
        return self.total * 2


EMPTY: dict[str, Any] = {
    "grandTotal": 0,
    "inner": None,
    "many": {},
    "either": None,
    "day": None,
    "price": None,
    "share": 0.0,
    "double": 0,
}


def definition(*, strict: bool = False, workspace: bool = False) -> TaskDefinition:
    spec = WorkspaceSpec() if workspace else None
    return TaskDefinition("n", "o", print, Params, Result, strict, workspace=spec)


FREE, IN_WORKSPACE = definition(), definition(workspace=True)


@pytest.mark.parametrize(
    ("task", "given", "text"),
    [
        (FREE, {}, ONLY_PARAMS),
        (FREE, None, ONLY_PARAMS),
        (IN_WORKSPACE, {"workspace": PLACE}, BOTH),
        (IN_WORKSPACE, {"params": {}}, BOTH),
        (IN_WORKSPACE, [], BOTH),
    ],
    ids=str,
)
def test_missing_parts_of_the_input_are_named(
    task: TaskDefinition, given: object, text: str
) -> None:
    with pytest.raises(TaskInputError) as caught:
        read_params(task, given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("given", [{"params": {}}, {"workspace": None, "params": {}}], ids=str)
def test_an_absent_workspace_says_that_the_upstream_output_was_null(given: object) -> None:
    with pytest.raises(TaskInputError, match="the upstream output was null") as caught:
        read_workspace_input(given, strict=False)
    assert caught.value.code == "PRG-I004"


def test_other_keys_of_the_input_are_ignored_unless_the_input_is_strict() -> None:
    given = {"workspace": PLACE, "params": {"count": 1}, "other": 1}
    assert read_workspace_input(given, strict=False).branch == "main"
    with pytest.raises(TaskInputError, match="must contain only workspace and params") as caught:
        read_workspace_input(given, strict=True)
    assert caught.value.code == "PRG-I005"
    with pytest.raises(TaskInputError, match="must contain only params; found other"):
        read_params(FREE, {"params": {"count": 1}, "other": 1}, strict=True)


def test_the_trace_context_is_a_known_key_of_a_strict_input() -> None:
    traced = {"params": {"count": 1}, "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    assert read_params(FREE, traced, strict=True).model_dump()["count"] == 1
    assert read_workspace_input(traced | {"workspace": PLACE}, strict=True).branch == "main"


def test_unknown_params_are_dropped_at_every_level_unless_params_are_strict() -> None:
    given = {"params": {"count": "1", "x": 1, "below": {"count": 2, "y": 2}}}
    params = read_params(FREE, given)
    assert params == Params(count=1, below=Params(count=2))
    with pytest.raises(ValidationError) as caught:
        read_params(definition(strict=True), given)
    assert failure_reason(caught.value) == (
        "ValidationError: params.below.y: Extra inputs are not permitted;"
        " params.x: Extra inputs are not permitted [PRG-I003]"
    )


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"count": SECRET}, "params.count: Input should be a valid integer"),
        ({}, "params.count: Field required"),
        (SECRET, "params: Input should be a valid dictionary"),
        (None, "params: Input should be a valid dictionary"),
        ({"count": 1, "colour": SECRET}, "params.colour: Input should be 'red'"),
        (
            {"count": 1, "checked": SECRET},
            "params.checked: Value error, '<value>' is not fine",
        ),
        (
            {"count": 1, "pet": {"kind": SECRET}},
            "params.pet: Input tag '<value>' found using 'kind'",
        ),
        ({"count": 1, "pet": {"kind": "cat"}}, "params.pet.cat.lives: Field required"),
        ({"count": 1, "free": {SECRET: "x"}}, "params.free.<key>: Input should be a valid int"),
        ({"count": 1, "below": {"count": SECRET}}, "params.below.count: Input should be"),
        ({"count": 1, "below": {"count": [SECRET]}}, "params.below.count: Input should be"),
    ],
    ids=str,
)
def test_a_reason_has_the_path_and_never_the_value(params: object, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read_params(FREE, {"params": params})
    assert failure_reason(caught.value).startswith(f"ValidationError: {reason}")
    shown = f"{failure_reason(caught.value)} {caught.value!s} {caught.value!r}"
    assert SECRET not in shown
    assert SECRET not in str(caught.value.errors())


@pytest.mark.parametrize(
    ("workspace", "reason", "code"),
    [
        (PLACE | {"ref": " "}, "workspace.ref: Value error, workspace repository, bra", "I002"),
        (PLACE | {"ref_type": SECRET}, "workspace: Value error, workspace refType and", "I008"),
        (PLACE | {"token": SECRET}, "workspace.token: Extra inputs are not permit", "I002"),
        (SECRET, "workspace: Input should be a valid dictionary", "I002"),
    ],
    ids=str,
)
def test_a_wrong_workspace_has_a_reason_and_a_code(
    workspace: object, reason: str, code: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        read_workspace_input({"workspace": workspace, "params": {}}, strict=False)
    said = failure_reason(caught.value)
    assert said.startswith(f"ValidationError: {reason}")
    assert said.endswith(f"[PRG-{code}]")
    assert SECRET not in said


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        (Result(), EMPTY),
        ({}, EMPTY),
        (Result(grandTotal=2), EMPTY | {"grandTotal": 2, "double": 4}),
        ({"grandTotal": 2}, EMPTY | {"grandTotal": 2, "double": 4}),
        ({"total": 2}, EMPTY | {"grandTotal": 2, "double": 4}),
        (Result(grandTotal=2).model_dump(), EMPTY | {"grandTotal": 2, "double": 4}),
        (
            Result(grandTotal=2).model_dump(by_alias=True),
            EMPTY | {"grandTotal": 2, "double": 4},
        ),
        (
            Result(inner=Inner(sizeBytes=1), many={"a": [Inner(sizeBytes=2)]}),
            EMPTY | {"inner": {"sizeBytes": 1}, "many": {"a": [{"sizeBytes": 2}]}},
        ),
        (
            Result(either=Dog(kind="dog", lives=1)),
            EMPTY | {"either": {"kind": "dog", "lives": 1}},
        ),
        (
            Result(day=dt.date(2026, 1, 2), price=Decimal("1.50")),
            EMPTY | {"day": "2026-01-02", "price": "1.50"},
        ),
    ],
    ids=str,
)
def test_a_result_is_written_by_alias_whether_instance_or_dictionary(
    raw: object, written: dict[str, Any]
) -> None:
    assert validate_result(FREE, raw) == written
    assert build_workspace_free_task_output(FREE, raw) == {"result": written}


class Wider(Result):
    """A result with one field too many."""

    extra: int = 1


def _assigned() -> Result:
    result = Result(inner=Inner(sizeBytes=1))
    vars(result)["total"] = "many"
    vars(result)["many"] = {"a": [Inner.model_construct(size="big")]}
    return result


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        (None, ["result"]),
        ("text", ["result"]),
        ({"unknown": 1}, ["result.unknown"]),
        ({"inner": {"sizeBytes": 1, "unknown": 1}}, ["result.inner.unknown"]),
        (Wider(), ["result.extra"]),
        (_assigned(), ["result.total", "result.many.<key>.0.size"]),
    ],
    ids=["nothing", "text", "unknown", "unknown inside", "subclass", "changed after validation"],
)
def test_a_result_outside_its_model_is_refused_by_path(raw: object, paths: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_result(FREE, raw)
    reason = failure_reason(caught.value).removeprefix("ValidationError: ")
    assert [each.split(": ")[0] for each in reason.split("; ")] == paths
    assert reason.endswith("[PRG-R001]")


def test_a_result_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ResultNotStorableError):
        validate_result(FREE, Result(share=float("nan")))


def test_the_output_of_a_workspace_task_is_its_input_at_another_commit() -> None:
    published = PLACE | {"ref": "c2"}
    built = build_workspace_task_output(IN_WORKSPACE, PLACE, "c2", Result())
    assert built == {"workspace": published, "result": EMPTY}
    read = WorkspaceInput.model_validate(PLACE)
    assert workspace_task_output(read, "c2", EMPTY) == built
    with pytest.raises(ValidationError, match="ref"):
        workspace_task_output(read, " ", EMPTY)


def test_an_output_is_built_for_its_own_kind_of_task() -> None:
    with pytest.raises(TaskInputError) as of_free:
        build_workspace_task_output(FREE, PLACE, "c2", Result())
    assert str(of_free.value) == "workspace output can only be built for workspace tasks"
    with pytest.raises(TaskInputError) as of_workspace:
        build_workspace_free_task_output(IN_WORKSPACE, Result())
    assert str(of_workspace.value) == (
        "workspace-free output can only be built for workspace-free tasks"
    )


def test_a_stored_result_is_compared_with_what_the_model_would_write_today() -> None:
    check_stored_result(FREE, validate_result(FREE, Result(inner=Inner(sizeBytes=1))))
    with pytest.raises(StoredResultError, match="retired"):
        check_stored_result(FREE, EMPTY | {"retired": 1})
    with pytest.raises(StoredResultError, match="grandTotal"):
        check_stored_result(FREE, EMPTY | {"grandTotal": "many"})


class Judged(BaseModel):
    """A result that validates what it computes when it is written."""

    kind: str

    @computed_field
    def cat(self) -> Cat:
        """Only a result of today is one."""
        return Cat.model_validate({"kind": self.kind, "lives": 9})


def test_a_stored_result_that_cannot_be_written_again_says_why_without_its_values() -> None:
    task = TaskDefinition(
        name="judge", owner_email="a@b.c", fn=print, params_model=Inner, output_model=Judged
    )
    with pytest.raises(StoredResultError) as raised:
        check_stored_result(task, {"kind": SECRET})
    assert SECRET not in str(raised.value)
