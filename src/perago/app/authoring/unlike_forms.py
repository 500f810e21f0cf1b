"""Fields that are read in another form than they hold or are written in: JSON text, base 64.

A validated value of such a field is not valid input. Says which they are and gives back what
can be read; validates nothing.
"""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, TypeGuard, Union, cast, get_args, get_origin

from pydantic import BaseModel, EncodedBytes, EncodedStr, Json
from pydantic.fields import FieldInfo
from pydantic_core import to_json

_JSON: Any = Json  # a class at run time, a form for checkers
_ENCODED = (EncodedBytes, EncodedStr)


def is_read_otherwise(field: FieldInfo) -> bool:
    """Whether any part of a field is read from an encoding of its value."""
    return _holds_mark(_annotated(field))


def readable(model: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model wrote with JSON text where it reads JSON text."""
    fields: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        fields |= {name: field, field.serialization_alias or name: field}
    return {
        name: _readable(_annotated(fields[name]), value) if name in fields else value
        for name, value in written.items()
    }


def _readable(annotation: Any, value: object) -> object:  # noqa: ANN401  # a type form
    parts = [each for each in _parts(annotation) if each not in {type(None), Ellipsis}]
    is_form = get_origin(annotation) in {Annotated, Union, UnionType}
    match value:
        case _ if value is not None and _is_json(annotation):
            return to_json(value).decode()
        case dict() if _is_model(annotation):
            return readable(annotation, cast("dict[str, Any]", value))
        case _ if is_form and len(parts) == 1:
            return _readable(parts[0], value)
        case dict() if parts and not is_form:
            below = cast("dict[str, object]", value)
            return {key: _readable(parts[-1], each) for key, each in below.items()}
        case list() if len(parts) == 1 and not is_form:
            return [_readable(parts[0], each) for each in cast("list[object]", value)]
        case _:
            return value


def _annotated(field: FieldInfo) -> Any:  # noqa: ANN401  # a type form
    annotation: Any = field.annotation
    for mark in field.metadata:
        annotation = Annotated[annotation, mark]
    return annotation


def _is_json(annotation: object) -> bool:
    marks = _marks(annotation)
    return annotation is _JSON or _JSON in marks or any(isinstance(mark, _JSON) for mark in marks)


def _holds_mark(annotation: object) -> bool:
    if _is_json(annotation) or any(isinstance(mark, _ENCODED) for mark in _marks(annotation)):
        return True
    return any(_holds_mark(part) for part in _parts(annotation))


def _parts(annotation: object) -> tuple[Any, ...]:
    """The types a form is made of, without the marks on them."""
    parts = get_args(annotation)
    return parts[:1] if get_origin(annotation) is Annotated else parts


def _marks(annotation: object) -> tuple[object, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
