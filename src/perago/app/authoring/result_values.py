"""Checks what a body returned against its result model, and writes it as the schema says.

Instances are checked field by field under their Python names, dictionaries by alias or by name;
both are written by alias, since that is what the registered schema advertises.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from perago.app.authoring.unlike_forms import is_read_otherwise, readable


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


def rewritten_result(model: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Read what was written and write it again; what the model does not know is dropped."""
    given = readable(model, written)
    read = model.model_validate(given, extra="ignore", by_alias=True, by_name=True)
    return read.model_dump(mode="json", by_alias=True)


def _checked_as(model: type[BaseModel], instance: BaseModel) -> BaseModel:
    """Validate an instance again: it may have been changed, or built without validation.

    Models inside are validated as what they are, so that a union keeps the member it was given.
    """
    values = {name: _checked_inside(value) for name, value in _values_by_name(instance).items()}
    return model.model_validate(values, extra="forbid", by_alias=False, by_name=True)


def _values_by_name(instance: BaseModel) -> dict[str, object]:
    fields = type(instance).model_fields
    values = {name: value for name, value in vars(instance).items() if name in fields}
    for name in values.keys() & {name for name in fields if is_read_otherwise(fields[name])}:
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
