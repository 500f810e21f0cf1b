"""The models that a task's params and result are made of, and the JSON Schemas of its contract.

The first part walks annotations: which models there are, and which names they declare. The second
writes pydantic's schemas as 0.6.1 registers them: without titles and docstrings, and without
references, except to models that contain themselves. Validates no value.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

from pydantic import AliasChoices, AliasPath, BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import is_typeddict

from perago.domain.errors import TaskDefinitionError

Schema = dict[str, Any]
Side = Literal["validation", "serialization"]

_DEFINITION = "#/$defs/"
_OBJECT_KEYS = frozenset({"type", "properties", "required", "additionalProperties"})
# Where a schema holds other schemas; what is under any other keyword is data and stays as it is.
_SCHEMA_KEYS = frozenset(
    {"items", "additionalProperties", "contains", "not", "propertyNames", "contentSchema"}
)
_SCHEMA_LIST_KEYS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA_MAP_KEYS = frozenset({"properties", "patternProperties"})


def models_in(*roots: object) -> list[type[BaseModel]]:
    """Every model that some types are made of, each once."""
    walked = (model for root in roots for model in _walk(root, records=False))
    return list(dict.fromkeys(model for model in walked if issubclass(model, BaseModel)))


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
    for each in models_in(model):
        names = [name for name, field in each.model_fields.items() if not _has_schema(field)]
        if names:
            failing[each] = names
    return [
        f"{each.__name__}.{name}"
        for each, names in failing.items()
        for name in names
        # A field of a model that fails itself is no cause.
        if failing.keys().isdisjoint(models_in(each.model_fields[name].annotation))
    ]


def _has_schema(field: FieldInfo) -> bool:
    form: Any = Annotated[field.annotation, field]
    try:
        TypeAdapter(form).json_schema()
    except PydanticUserError:
        return False
    return True


def _walk(root: object, *, records: bool) -> Iterator[type[object]]:
    """Yield each model once; with `records`, dataclasses and typed dictionaries as well."""
    seen: set[type[object]] = set()
    pending: list[object] = [root]
    while pending:
        annotation = pending.pop()
        if not isinstance(annotation, type) or get_args(annotation):
            pending += get_args(annotation)  # a form such as `list[int]`
            continue
        model = cast("type[object]", annotation)
        if model not in seen:
            seen.add(model)
            if issubclass(model, BaseModel):
                yield model
                pending += [field.annotation for field in model.model_fields.values()]
            elif records and (dataclasses.is_dataclass(model) or is_typeddict(model)):
                yield model
                pending += get_type_hints(model).values()


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


class _ContractSchema(GenerateJsonSchema):
    """Pydantic's schemas without what a model says about itself: its title, docstring, extras."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _object_keys_only(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _object_keys_only(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _object_keys_only(super().typed_dict_schema(schema))


class _ShapeOnly(_ContractSchema):
    """For comparing the two sides of a model: a decimal is read and written as text anyway."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        del schema
        return {"type": "string"}


def schema_for_model(
    model: type[BaseModel], *, allow_extra: bool = False, side: Side = "validation"
) -> Schema:
    """Return the schema of `model`; `allow_extra` opens its objects, at every level."""
    generated = _generate(model, side, _ContractSchema)
    return _Inliner(generated.pop("$defs", {}), allow_extra=allow_extra).document(generated)


def schema_for_result(model: type[BaseModel]) -> Schema:
    """Return the schema of what a task writes.

    A model is described as it is read, like the public 0.6.1 does, unless it writes itself in
    another shape: computed fields, aliases of one side only, custom serializers.
    """
    read = _shape_of(_generate(model, "validation", _ShapeOnly))
    written = _shape_of(_generate(model, "serialization", _ShapeOnly))
    return schema_for_model(model, side="validation" if read == written else "serialization")


def _generate(
    model: type[BaseModel], side: Side, generator: type[GenerateJsonSchema]
) -> dict[str, Any]:
    try:
        return model.model_json_schema(mode=side, schema_generator=generator)
    except PydanticInvalidForJsonSchema as error:
        fields = ", ".join(fields_without_schema(model)) or model.__name__
        raise TaskDefinitionError(
            f"{fields} cannot be described in JSON: {str(error).splitlines()[0]}", code="PRG-T021"
        ) from error


def _shape_of(value: object, *, names: bool = False) -> object:
    """A schema without what may be absent; the names of properties are not keywords."""
    if isinstance(value, list):
        return [_shape_of(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: _shape_of(each, names=key in {"properties", "$defs"} and not names)
        for key, each in cast("dict[str, object]", value).items()
        if names or key not in {"required", "default"}
    }


def _object_keys_only(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {key: value for key, value in schema.items() if key in _OBJECT_KEYS}


class _Inliner:
    """Replaces references by what they stand for, except where that would not end."""

    def __init__(self, definitions: Mapping[str, Schema], *, allow_extra: bool) -> None:
        self._definitions = definitions
        self._allow_extra = allow_extra
        self._recursive = frozenset(name for name in definitions if name in self._reached(name))

    def document(self, root: Schema) -> Schema:
        """Return one self-contained schema."""
        inlined = self._schema(root)
        if self._recursive:
            inlined["$defs"] = {
                name: self._schema(self._definitions[name]) for name in sorted(self._recursive)
            }
        return inlined

    def _schema(self, schema: Schema) -> Schema:
        name = _reference(schema)
        if name is not None and name not in self._recursive:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self._schema({**self._definitions[name], **beside})
        inlined = _with_schemas_below(schema, self._schema)
        inlined.pop("title", None)
        if "properties" in inlined:
            inlined["additionalProperties"] = self._allow_extra
        return inlined

    def _reached(self, start: str) -> set[str]:
        """The definitions that one refers to, and those that these refer to."""
        found: set[str] = set()
        pending = [self._definitions[start]]

        def note(schema: Schema) -> Schema:
            pending.append(schema)
            return schema

        while pending:
            schema = pending.pop()
            name = _reference(schema)
            if name is not None and name not in found:
                found.add(name)
                pending.append(self._definitions[name])
            _with_schemas_below(schema, note)
        return found


def _reference(schema: Schema) -> str | None:
    """The name of the definition that a schema refers to."""
    reference = schema.get("$ref")
    return reference.removeprefix(_DEFINITION) if isinstance(reference, str) else None


def _with_schemas_below(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with a change of each schema that it holds."""

    def changed(value: object) -> object:
        return change(cast("Schema", value)) if isinstance(value, dict) else value

    found: Schema = {}
    for key, value in schema.items():
        found[key] = value
        if key in _SCHEMA_KEYS:
            found[key] = changed(value)
        elif key in _SCHEMA_LIST_KEYS and isinstance(value, list):
            found[key] = [changed(each) for each in cast("list[object]", value)]
        elif key in _SCHEMA_MAP_KEYS and isinstance(value, dict):
            named = cast("Schema", value)
            found[key] = {name: changed(each) for name, each in named.items()}
    return found
