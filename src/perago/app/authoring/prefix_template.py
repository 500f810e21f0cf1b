"""A prefix that takes values of params, such as `songs/{params.song}`: checked, then resolved.

`refuse_placeholders` looks at a declaration, `resolved_task` fills the placeholders of one attempt
in. Everything after it knows the resolved prefix only: it is part of the key of the execution and
of the commit metadata, so that a retry with the same params works on the same folder.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr

from perago.app.authoring.envelope import params_model_value
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import PLACEHOLDER
from perago.domain.errors import PrefixValueError, TaskDefinitionError
from perago.domain.paths import path_part_problem, prefix_problem

_CODE: Final = "PRG-T023"
# A folder name is a text or a whole number; these are neither in JSON, or must not be shown.
_UNFIT = (bool, float, bytes, list, tuple, dict, set, frozenset, BaseModel, SecretStr, SecretBytes)


def refuse_placeholders(prefix: str, model: type[BaseModel]) -> None:
    """Refuse a placeholder that no field of the params model can fill."""
    fields = model.model_fields
    for found in PLACEHOLDER.finditer(prefix):
        name = found["name"]
        if name not in fields:
            near = get_close_matches(name, fields, n=1)
            known = f"it has {', '.join(fields) or 'no fields'}"
            hint = f"did you mean {{params.{near[0]}}}?" if near else known
            text = f"WorkspaceSpec.prefix names {found[0]}, but {model.__name__} has no such field"
            raise TaskDefinitionError(f"{text}; {hint}", code=_CODE)
        if all(_is_unfit(each) for each in _members(fields[name].annotation)):
            text = f"WorkspaceSpec.prefix names {found[0]}, whose values are no name of a folder"
            raise TaskDefinitionError(f"{text}; use a str or an int field", code=_CODE)
    # Braces are legal in a path. But where song is a field, `{song}` is a slip for `{params.song}`.
    for name in fields:
        if f"{{{name}}}" in prefix:
            text = f"WorkspaceSpec.prefix has {{{name}}}; did you mean {{params.{name}}}?"
            raise TaskDefinitionError(text, code=_CODE)


def resolved_prefix(task: TaskDefinition, params: object) -> str:
    """The prefix for these params; raises PrefixValueError when a value is no part of a path."""
    assert task.workspace is not None, "only workspace tasks have a prefix"
    template = task.workspace.prefix
    if PLACEHOLDER.search(template) is None:
        return template
    # Of the validated model, so that a default and a date are filled in as the function sees them.
    model = params_model_value(task, params)

    def value_of(found: re.Match[str]) -> str:
        name = found["name"]
        value = model.model_dump(mode="json", include={name})[name]
        return _part(name, value)

    # One pass: a value that looks like a placeholder is a name and nothing else.
    prefix = PLACEHOLDER.sub(value_of, template)
    problem = prefix_problem(prefix)
    if problem is not None:
        raise PrefixValueError(_fields_of(template), problem)
    return prefix


def resolved_task(task: TaskDefinition, params: object) -> TaskDefinition:
    """The task as one attempt with these params knows it."""
    if task.workspace is None:
        return task
    prefix = resolved_prefix(task, params)
    if prefix == task.workspace.prefix:
        return task
    return replace(task, workspace=task.workspace.model_copy(update={"prefix": prefix}))


def _part(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise PrefixValueError(name, f"is {type(value).__name__}, expected a text or whole number")
    problem = path_part_problem(str(value))
    if problem is not None:
        raise PrefixValueError(name, problem)
    return str(value)


def _fields_of(template: str) -> str:
    return ", ".join(found["name"] for found in PLACEHOLDER.finditer(template))


def _members(annotation: object) -> Iterator[object]:
    """The types that a field takes: those of a union one by one.

    `list[int]` has arguments, too, but its origin is a class.
    """
    inner = [each for each in get_args(annotation) if each is not type(None)]
    is_union = get_origin(annotation) is not None and not isinstance(get_origin(annotation), type)
    if inner and is_union:
        yield from inner
    else:
        yield annotation


def _is_unfit(annotation: object) -> bool:
    found = get_origin(annotation) or annotation
    return isinstance(found, type) and issubclass(found, _UNFIT)
