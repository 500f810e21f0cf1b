"""What goes into a task function and comes out of it, as JSON: read, checked, and written.

Instances are checked field by field under their Python names, dictionaries by alias or by name;
both are written by alias, since that is what the registered schema advertises.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, TypeGuard, Union, cast, get_args, get_origin

from pydantic import BaseModel, EncodedBytes, EncodedStr, Json, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from perago.app.authoring.failure import validation_reason, without_input_values
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import PLACEHOLDER, WorkspaceInput, filled_prefix
from perago.domain import errors
from perago.domain.commit_metadata import INPUT_KEY as TRACE_KEY

_JSON: Any = Json  # a class at run time, a form for checkers
_ENCODED = (EncodedBytes, EncodedStr)
_NULL_WORKSPACE = (
    "workspace is null: the upstream output was null, or the input expression points at nothing;"
    " retrying cannot help, look at the task that should have produced the workspace"
)
_MISSING = "{kind} task input must contain {keys}"


def read_workspace_input(input_data: object, *, strict: bool) -> WorkspaceInput:
    """Return the workspace of a workspace task's input; `strict` refuses other keys."""
    data = _keys("workspace", ("workspace", "params"), input_data, strict=strict)
    workspace = data["workspace"]
    if workspace is None:
        raise errors.TaskInputError(_NULL_WORKSPACE, code="PRG-I004")
    try:
        return WorkspaceInput.model_validate(workspace)
    except ValidationError as error:
        raise without_input_values(
            error, part="workspace", data=workspace, model=WorkspaceInput
        ) from None  # the original carries the values


def read_params(task: TaskDefinition, input_data: object, *, strict: bool = False) -> BaseModel:
    """Return the params of a task's input, closed or open as the task says."""
    if task.has_workspace:
        data = _keys("workspace", ("workspace", "params"), input_data, strict=strict)
    else:
        data = _keys("workspace-free", ("params",), input_data, strict=strict)
    return params_model_value(task, data["params"])


def params_model_value(task: TaskDefinition, params: object) -> BaseModel:
    """Return the params alone, without the input around them, as the task's model."""
    try:
        return task.params_model.model_validate(
            params, extra="forbid" if task.strict_params else "ignore"
        )
    except ValidationError as error:
        # The original carries the values.
        clean = without_input_values(error, part="params", data=params, model=task.params_model)
        if task.built_in:  # the documents, which let Conductor retry this, do not know such tasks
            raise errors.ParamsRefusedError(
                f"ValidationError: {validation_reason(clean)}"
            ) from None
        raise clean from None


def resolved_prefix(task: TaskDefinition, params: object) -> str:
    """The folder that an attempt with these params works on."""
    assert task.workspace is not None, "only workspace tasks have a prefix"
    template = task.workspace.prefix
    if PLACEHOLDER.search(template) is None:
        return template
    # Of the validated model, so that a default and a date are filled in as the function sees them.
    return filled_prefix(template, params_model_value(task, params))


def resolved_task(task: TaskDefinition, params: object) -> TaskDefinition:
    """The task as one attempt with these params knows it."""
    if task.workspace is None:
        return task
    prefix = resolved_prefix(task, params)
    if prefix == task.workspace.prefix:
        return task
    return replace(task, workspace=task.workspace.model_copy(update={"prefix": prefix}))


def validate_result(task: TaskDefinition, raw: object) -> dict[str, Any]:
    """Return what a task function returned as JSON-ready data, checked by its result model."""
    try:
        result = json_result(task.output_model, raw)
    except ValidationError as error:
        raise without_input_values(
            error, part="result", data=raw, model=task.output_model
        ) from None  # the original carries the values
    try:
        json.dumps(result, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise errors.ResultNotStorableError(str(error)) from error
    return result


def check_stored_result(task: TaskDefinition, stored: Mapping[str, Any]) -> None:
    """Refuse a stored result that today's result model would not have written.

    A result is compared with what the model writes again, since what is written need not be
    readable as it stands: computed fields are in it.
    """
    try:
        read = task.output_model.model_validate(
            _readable_fields(task.output_model, stored),
            extra="ignore",
            by_alias=True,
            by_name=True,
        )
        again = read.model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        safe = without_input_values(error, part="result", data=stored, model=task.output_model)
        raise errors.StoredResultError(
            validation_reason(safe)
        ) from None  # the original has the values
    if again != stored:
        names = ", ".join(sorted(set(again) ^ set(stored))) or "values inside"
        raise errors.StoredResultError(names)


def workspace_task_output(
    input_workspace: WorkspaceInput, published_ref: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the output of a workspace task from a result that is validated already."""
    published = input_workspace.published_output(published_ref)
    return {"workspace": published.model_dump(mode="json"), "result": dict(result)}


def _keys(
    kind: str, keys: tuple[str, ...], input_data: object, *, strict: bool
) -> Mapping[str, object]:
    expected = _MISSING.format(kind=kind, keys=" and ".join(keys))
    if not isinstance(input_data, Mapping):
        raise errors.TaskInputError(
            f"{expected}; found something that is not an object", code="PRG-I001"
        )
    data = cast("Mapping[str, object]", input_data)
    missing = [key for key in keys if key not in data]
    if "workspace" in missing:
        raise errors.TaskInputError(
            f"{expected}; workspace is missing: the upstream output was null or is not mapped",
            code="PRG-I004",
        )
    if missing:
        raise errors.TaskInputError(expected, code="PRG-I001")
    unknown = sorted(set(data) - {*keys, TRACE_KEY})
    if strict and unknown:
        raise errors.TaskInputError(
            f"{kind} task input must contain only {' and '.join(keys)}; found {', '.join(unknown)}",
            code="PRG-I005",
        )
    return data


def json_result(model: type[BaseModel], raw: object) -> dict[str, Any]:
    """Return JSON-ready data, or raise pydantic's error; unknown fields are refused."""
    if isinstance(raw, BaseModel):
        checked = _checked_as(model, raw)
    elif isinstance(raw, Mapping):
        given = cast("Mapping[str, object]", raw)
        checked = model.model_validate(
            _without_computed(model, given), extra="forbid", by_alias=True, by_name=True
        )
    else:
        checked = model.model_validate(raw, extra="forbid")
    return checked.model_dump(mode="json", by_alias=True)


def _checked_as(model: type[BaseModel], instance: BaseModel) -> BaseModel:
    """Validate an instance again: it may have been changed, or built without validation.

    Models inside are validated as what they are, so that a union keeps the member it was given.
    """
    values = {name: _checked_inside(value) for name, value in _values_by_name(instance).items()}
    return model.model_validate(values, extra="forbid", by_alias=False, by_name=True)


def _values_by_name(instance: BaseModel) -> dict[str, object]:
    fields = type(instance).model_fields
    values = {name: value for name, value in vars(instance).items() if name in fields}
    for name in values.keys() & {
        name for name in fields if _is_encoded(fields[name].rebuild_annotation())
    }:
        # Pydantic's own way back, for one field: what the value was read from.
        again = instance.model_dump(round_trip=True, include={name}, warnings=False)
        values[name] = again[name]
    return values | (instance.model_extra or {})


def _checked_inside(value: object) -> object:
    if isinstance(value, BaseModel):
        try:
            return _checked_as(type(value), value)
        except ValidationError:
            return _values_by_name(value)  # the model around it says so, with the whole path
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        return {key: _checked_inside(each) for key, each in mapping.items()}
    if type(value) in {list, tuple}:
        sequence = cast("list[object] | tuple[object, ...]", value)
        return type(sequence)(_checked_inside(each) for each in sequence)
    return value


def _without_computed(model: type[BaseModel], given: Mapping[str, object]) -> dict[str, object]:
    """Drop what the model computes itself, so that `model_dump()` of an instance is accepted."""
    computed = {
        name for field, info in model.model_computed_fields.items() for name in (field, info.alias)
    }
    return {name: value for name, value in given.items() if name not in computed}


def _readable_fields(model: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model wrote with JSON text where it reads JSON text."""
    fields: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        fields |= {name: field, field.serialization_alias or name: field}
    return {
        name: _readable(fields[name].rebuild_annotation(), value) if name in fields else value
        for name, value in written.items()
    }


def _readable(annotation: Any, value: object) -> object:  # noqa: ANN401  # a type form
    parts = [each for each in _parts(annotation) if each not in {type(None), Ellipsis}]
    is_form = get_origin(annotation) in {Annotated, Union, UnionType}
    match value:
        case _ if value is not None and _is_json(annotation):
            return to_json(value).decode()
        case dict() if _is_model(annotation):
            return _readable_fields(annotation, cast("dict[str, Any]", value))
        case _ if is_form and len(parts) == 1:
            return _readable(parts[0], value)
        case dict() if parts and not is_form:
            below = cast("dict[str, object]", value)
            return {key: _readable(parts[-1], each) for key, each in below.items()}
        case list() if len(parts) == 1 and not is_form:
            return [_readable(parts[0], each) for each in cast("list[object]", value)]
        case _:
            return value


def _is_json(annotation: object) -> bool:
    marks = _marks(annotation)
    return annotation is _JSON or _JSON in marks or any(isinstance(mark, _JSON) for mark in marks)


def _is_encoded(annotation: object) -> bool:
    """Whether any part of a field is read from an encoding of its value."""
    if _is_json(annotation) or any(isinstance(mark, _ENCODED) for mark in _marks(annotation)):
        return True
    return any(_is_encoded(part) for part in _parts(annotation))


def _parts(annotation: object) -> tuple[Any, ...]:
    """The types a form is made of, without the marks on them."""
    parts = get_args(annotation)
    return parts[:1] if get_origin(annotation) is Annotated else parts


def _marks(annotation: object) -> tuple[object, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
