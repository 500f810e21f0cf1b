"""A judge of documents by their schema, and wrong variants of documents for it to refuse.

Variants are found by walking the schema: what is closed, what is required, what has a type.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]
WRONG = {"of the wrong": ["type"]}
# Times without a zone, as pydantic writes them, are not what the format "time" asks for.
FORMATS = FormatChecker(["date", "uuid"])


class Judge:
    """jsonschema, for one schema."""

    def __init__(self, schema: Schema) -> None:
        Draft202012Validator.check_schema(schema)
        self.schema = schema
        self._validator = cast("Any", Draft202012Validator(schema, format_checker=FORMATS))

    def accepts(self, document: object) -> bool:
        """Tell whether a document fits."""
        return bool(self._validator.is_valid(document))

    def complaints(self, document: object) -> list[str]:
        """Say why a document does not fit."""
        return [str(each.message) for each in self._validator.iter_errors(document)]


@dataclass(frozen=True)
class Mutation:
    """A document that is wrong in one place."""

    what: str
    document: object


def mutations(root: Schema, document: object) -> Iterator[Mutation]:
    """Yield the document with each required key missing, with extra keys, with wrong types."""
    for path, schema, value in _places(root, root, (), document):
        if isinstance(value, dict) and schema.get("additionalProperties") is False:
            yield Mutation(f"extra key at {path}", _with(document, (*path, "unexpected"), 1))
            for key in schema.get("required", []):
                yield Mutation(f"no {key} at {path}", _without(document, (*path, key)))
        if schema:
            wrong = "text, no object" if isinstance(value, dict) else WRONG
            yield Mutation(f"wrong type at {path}", _with(document, path, wrong))


def _places(
    root: Schema, schema: Schema, path: Path, value: object
) -> Iterator[tuple[Path, Schema, object]]:
    schema = _meant(root, schema, value)
    yield path, schema, value
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            known = schema.get("properties", {}).get(key)
            other = schema.get("additionalProperties")
            below = cast("Schema", known if known is not None else other)
            is_schema = isinstance(below, dict)
            yield from _places(root, below if is_schema else {}, (*path, key), each)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        for index, each in enumerate(cast("list[object]", value)):
            below = first[index] if index < len(first) else schema.get("items", {})
            yield from _places(root, below, (*path, index), each)


def _meant(root: Schema, schema: Schema, value: object) -> Schema:
    """Follow references, and of alternatives the one that the value fits."""
    definitions = root.get("$defs", {})
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        return _meant(root, definitions[name], value)
    for each in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        if Judge({**each, "$defs": definitions}).accepts(value):
            return _meant(root, each, value)
    return schema


def _with(document: object, path: Path, value: object) -> object:
    if not path:
        return value
    copied, holder = _copy(document, path)
    holder[path[-1]] = value
    return copied


def _without(document: object, path: Path) -> object:
    copied, holder = _copy(document, path)
    del holder[path[-1]]
    return copied


def _copy(document: object, path: Path) -> tuple[object, Any]:
    """Return a copy, and what holds the last step of the path in it."""
    copied: Any = copy.deepcopy(document)
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    return copied, holder
