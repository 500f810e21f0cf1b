"""Validation errors without the values that caused them: what Conductor and logs may show.

A reason has the path of the field and what is wrong with it. Validates nothing itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from perago.app.authoring.model_graph import declared_names
from perago.domain.errors import PeragoError

_HIDDEN = "<value>"
_HIDDEN_KEY = "<key>"
_WHOLE_WORD_BELOW_CHARACTERS = 4
_LEAVES_MAX = 10_000
# Texts written by validators of the author, or that quote the input; all others are pydantic's
# own sentences about types and limits.
_MAY_QUOTE_INPUT = frozenset({"value_error", "assertion_error", "union_tag_invalid"})
_FIXED_SENTENCES = frozenset(get_args(ErrorType)) - _MAY_QUOTE_INPUT


def without_input_values(
    error: ValidationError, *, place: str, data: object, model: type[BaseModel]
) -> ValidationError:
    """Return the same errors, below `place`, with no value of `data` in text or fields."""
    names = declared_names(model)
    return ValidationError.from_exception_data(
        error.title,
        [
            InitErrorDetails(
                type=_sentence(each), loc=(place, *_path(each, data, names)), input=None
            )
            for each in error.errors(include_url=False)
        ],
        hide_input=True,
    )


def validation_reason(error: ValidationError) -> str:
    """One line: each field path with what is wrong there; never a value."""
    return "; ".join(
        f"{_dotted(each['loc'])}{_message(each)}" for each in error.errors(include_url=False)
    )


def validation_code(error: ValidationError) -> str | None:
    """The code of the first error of ours inside, if there is one."""
    for each in error.errors(include_url=False):
        facts = each.get("ctx", {})
        code = getattr(facts.get("error"), "code", facts.get("code"))
        if isinstance(code, str):
            return code
    return None


def _sentence(each: ErrorDetails) -> PydanticCustomError:
    cause = each.get("ctx", {}).get("error")
    facts = {"message": _message(each)}
    if isinstance(cause, PeragoError):
        facts["code"] = cause.code
    return PydanticCustomError(cast("Any", each["type"]), "{message}", facts)


def _message(each: ErrorDetails) -> str:
    message = each["msg"]
    cause = each.get("ctx", {}).get("error")
    if each["type"] in _FIXED_SENTENCES or isinstance(cause, PeragoError):
        return message
    tag = each.get("ctx", {}).get("tag")
    quoted = [str(tag)] if tag is not None else set(_leaves(each["input"]))
    for value in sorted(quoted, key=len, reverse=True):
        pattern = re.escape(value)
        if len(value) < _WHOLE_WORD_BELOW_CHARACTERS:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(pattern, _HIDDEN, message)
    return message


def _leaves(value: object) -> Iterator[str]:
    """Texts of the scalars inside a value, at most `_LEAVES_MAX` of them."""
    pending, count = [value], 0
    while pending and count < _LEAVES_MAX:
        count += 1
        current = pending.pop()
        if isinstance(current, BaseModel):
            pending += vars(current).values()
        elif isinstance(current, Mapping):
            pair = cast("Mapping[object, object]", current)
            pending += [*pair.keys(), *pair.values()]
        elif isinstance(current, Sequence | set | frozenset) and not isinstance(current, str):
            pending += cast("Sequence[object]", current)
        elif current is not None and not isinstance(current, bool) and str(current):
            yield str(current)


def _path(each: ErrorDetails, data: object, names: frozenset[str]) -> Iterator[str | int]:
    """The location, with keys of free-form dictionaries hidden: they are data, not names."""
    last = len(each["loc"]) - 1
    current = data
    for position, step in enumerate(each["loc"]):
        below = _below(current, step)
        is_data = isinstance(step, str) and step not in names and below is not None
        is_unexpected = each["type"] == "extra_forbidden" and position == last
        yield _HIDDEN_KEY if is_data and not is_unexpected else step
        if below is not None:
            (current,) = below


def _below(current: object, step: str | int) -> tuple[object] | None:
    if isinstance(current, BaseModel):
        current = vars(current)
    if isinstance(current, Mapping):
        mapping = cast("Mapping[object, object]", current)
        return (mapping[step],) if step in mapping else None
    if isinstance(current, Sequence) and isinstance(step, int):
        sequence = cast("Sequence[object]", current)
        return (sequence[step],) if step < len(sequence) else None
    return None


def _dotted(location: tuple[str | int, ...]) -> str:
    return ".".join(str(step) for step in location) + ": " if location else ""
