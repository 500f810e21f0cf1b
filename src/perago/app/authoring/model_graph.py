"""Every model that a task's params and result are made of, and the names they declare.

Looks at annotations only; no schema is generated and no value is validated here.
"""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, cast, get_args, get_type_hints

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.authoring_errors import TaskDefinitionError


def task_models_with_config(task: TaskDefinition) -> list[type[BaseModel]]:
    """Models that carry a ConfigDict, which is not part of the task contract."""
    return [model for model in _task_models(task) if model.model_config and not _is_root(model)]


def task_models_with_root_model(task: TaskDefinition) -> list[type[BaseModel]]:
    """Models that are a RootModel, which is refused."""
    return [model for model in _task_models(task) if _is_root(model)]


def validate_no_root_task_models(task: TaskDefinition) -> None:
    """Refuse a task whose contract is not made of ordinary object models."""
    found = task_models_with_root_model(task)
    if found:
        names = ", ".join(model.__name__ for model in found)
        raise TaskDefinitionError(
            f"Pydantic RootModel on task model(s) {names} is not supported;"
            " Perago task contracts must use ordinary BaseModel object models.",
            code="PRG-T012",
        )


def declared_names(model: type[BaseModel]) -> frozenset[str]:
    """Field names and aliases of a model and of everything it is made of."""
    names: set[str] = set()
    for record in _walk(model, records=True):
        if issubclass(record, BaseModel):
            for name, field in record.model_fields.items():
                names |= {name, *_alias_names(field.validation_alias)}
        else:
            names |= set(get_type_hints(record))
    return frozenset(names)


def fields_without_schema(model: type[BaseModel]) -> list[str]:
    """Fields that have no JSON Schema, each as `Model.field`, where the cause is."""
    failing: dict[type[BaseModel], list[str]] = {}
    for each in _walk(model, records=False):
        assert issubclass(each, BaseModel), "only models were asked for"
        names = [name for name, field in each.model_fields.items() if not _has_schema(field)]
        if names:
            failing[each] = names
    return [
        f"{each.__name__}.{name}"
        for each, names in failing.items()
        for name in names
        # A field of a model that fails itself is no cause.
        if failing.keys().isdisjoint(_walk(each.model_fields[name].annotation, records=False))
    ]


def _has_schema(field: FieldInfo) -> bool:
    form: Any = Annotated[field.annotation, field]
    try:
        TypeAdapter(form).json_schema()
    except PydanticUserError:
        return False
    return True


def _task_models(task: TaskDefinition) -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {}
    for root in (task.params_model, task.output_model):
        for model in _walk(root, records=False):
            if issubclass(model, BaseModel):
                found[model] = None
    return list(found)


def _walk(root: object, *, records: bool) -> Iterator[type[object]]:
    """Yield each model once; with `records`, dataclasses and typed dictionaries as well."""
    seen: set[type[object]] = set()
    pending: list[object] = [root]
    while pending:
        annotation = pending.pop()
        model = _plain_class(annotation)
        if model is None:
            pending += get_args(annotation)
        elif model not in seen:
            seen.add(model)
            if issubclass(model, BaseModel):
                yield model
                pending += [field.annotation for field in model.model_fields.values()]
            elif records and (dataclasses.is_dataclass(model) or is_typeddict(model)):
                yield model
                pending += get_type_hints(model).values()


def _plain_class(annotation: object) -> type[object] | None:
    """Return the class an annotation is, or None for a form such as `list[int]`."""
    is_class = isinstance(annotation, type) and not get_args(annotation)
    return cast("type[object]", annotation) if is_class else None


def _alias_names(alias: str | AliasPath | AliasChoices | None) -> Iterator[str]:
    match alias:
        case None:
            return
        case str():
            yield alias
        case AliasPath():
            yield from (step for step in alias.path if isinstance(step, str))
        case AliasChoices():
            for choice in alias.choices:
                yield from _alias_names(choice)


def _is_root(model: type[BaseModel]) -> bool:
    return issubclass(model, RootModel)
