"""What `--params` of `perago submit` says, and whether the tasks of a workflow take it.

`merged_params` reads the options, `complete_params` makes the input of them. `check_params` refuses
what the tasks would not take, as far as their TaskDefs on Conductor tell.
"""

import json
import re
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Final, cast

from perago.app.command_line.reporting import CommandUsageError, warn
from perago.domain.attempt import as_mapping
from perago.ports.errors import AccessDeniedError, RequestRefusedError
from perago.ports.installations import ConductorInstallation

# The path that an expression names, whatever stands behind it. `perago workflow new` writes
# `${workflow.input.params.REFERENCE}`.
_NAMED = re.compile(r"\$\{workflow\.input\.params\.(\w+(?:\.\w+)*)")
# One value of the params, or all of them, as the workflow of one branch of a fork has them.
_PATH = re.compile(r"\$\{workflow\.input\.params(?:\.(?P<path>\w+(?:\.\w+)*))?\}")
# What may leave rows out, or has rows that read the input of another workflow.
_MAY_NOT_RUN = re.compile(r'"(?:SWITCH|DECISION|TERMINATE|DO_WHILE|workflowDefinition)"')
_ABSENT: Final = object()


def merged_params(texts: list[str]) -> dict[str, object]:
    """The params of all options; a later one wins."""
    found: dict[str, object] = {}
    for text in texts:
        found = _merged(found, _params_of(text))
    return found


def _params_of(text: str) -> dict[str, object]:
    wanted = "--params expects JSON, @FILE with JSON, or REFERENCE.FIELD=VALUE"
    if text.startswith("@"):
        try:
            return json_object(Path(text[1:]).read_text(encoding="utf-8"), f"{wanted}; {text}")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandUsageError(f"{wanted}: {error}") from error
    if text.lstrip().startswith("{"):
        return json_object(text, wanted)
    name, equals, value = text.partition("=")
    parts = name.split(".")
    if not equals or not all(parts):
        raise CommandUsageError(f"{wanted}; found {text!r}")
    # Everything else stays a text, which a params model reads as the number or date that it wants:
    # `song=007` is no number.
    is_json = value.startswith(("{", "[", '"'))
    found: object = _json(value, wanted) if is_json else value
    for part in reversed(parts):
        found = {part: found}
    return cast("dict[str, object]", found)


def json_object(text: str, wanted: str) -> dict[str, object]:
    """The object that a text of JSON has; `wanted` begins the error for any other text."""
    found = _json(text, wanted)
    if not isinstance(found, dict):
        raise CommandUsageError(f"{wanted}; found {type(found).__name__}")
    return cast("dict[str, object]", found)


def _json(text: str, wanted: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError as error:
        raise CommandUsageError(f"{wanted}: {error}") from error


def _merged(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    both = {**one, **other}
    for name in one.keys() & other.keys():
        first, second = one[name], other[name]
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            inner = cast("Mapping[str, object]", first), cast("Mapping[str, object]", second)
            both[name] = _merged(*inner)
    return both


def complete_params(
    definition: Mapping[str, object], params: Mapping[str, object]
) -> dict[str, object]:
    """The params, with an empty object for each task that was given none.

    Without one a task whose params all have defaults would get null. A name that the definition
    does not read is refused, because the task that it was meant for would run without it.
    """
    text = json.dumps(definition)
    read = sorted({path.partition(".")[0] for path in _NAMED.findall(text)})
    reads_all = re.search(r"\$\{workflow\.input(\.params)?\}", text) is not None
    for name in params:
        if name not in read and not reads_all:
            near = get_close_matches(name, read, n=1)
            known = f"it reads {', '.join(read)}" if read else "it reads no params"
            hint = f"did you mean {near[0]}?" if near else known
            raise CommandUsageError(f"{definition['name']} does not read params.{name}; {hint}")
    paths = (_path_in(reader.given) for reader in _readers(definition))
    taken_whole = {path.partition(".")[0] for path in paths if path}
    return {**{name: dict[str, object]() for name in sorted(taken_whole)}, **params}


async def check_params(
    conductor: ConductorInstallation, definition: Mapping[str, object], params: Mapping[str, object]
) -> None:
    """Compare params with the schemas in the TaskDefs of the tasks that read them.

    A task ignores fields that it does not know, so it would run with the default instead. A field
    that is like one of the task is a slip, and refused. Another one may be meant for a model that
    takes more than its schema says, and is told of.
    A field without a default that nothing gives is refused, because every attempt would fail for
    it. Only in rows that run in every case: a workflow may be started to go another way.
    """
    named = [(reader, await _tasks_of(conductor, reader)) for reader in _readers(definition)]
    known = {  # a workflow may have many rows of one task; its TaskDef is read once
        task: _fields_of(await _unless_refused(conductor.definitions.read(task)))
        for task in dict.fromkeys(task for _, tasks in named for task in tasks)
    }
    read = [
        (reader, task, fields)
        for reader, tasks in named
        for task in tasks
        if (fields := known[task]) is not None
    ]
    taken = _paths_taken(definition, [(reader, fields) for reader, _, fields in read])
    missing: dict[str, dict[str, str]] = {}
    for reader, task, fields in read:
        reader.check_names(task, fields, params, taken)
        if reader.always_runs and (paths := reader.missing(fields, params)):
            missing[task] = missing.get(task, {}) | paths
    if missing:
        fields_of = {task: ", ".join(dict.fromkeys(of.values())) for task, of in missing.items()}
        needs = [f"{task} needs {names}" for task, names in fields_of.items()]
        every = dict.fromkeys(path for paths in missing.values() for path in paths)
        options = [f"--params {path}=VALUE" for path in every]
        raise CommandUsageError(
            f"{'; '.join(needs)}, says the TaskDef on Conductor; add {' '.join(options)}"
            " (if the code has a default, run `perago register` first)"
        )


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a params model, in the schema that `perago register` wrote."""

    known: Mapping[str, object]
    required: Sequence[str]

    def takes_null(self, name: str) -> bool:
        """Whether null may be a value of a field; a schema of several types is not looked into."""
        kind = as_mapping(self.known.get(name)).get("type")
        return kind == "null" or not isinstance(kind, str)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A row of a definition, and what it gives its task as params."""

    row: Mapping[str, object]
    given: object
    always_runs: bool
    is_within: bool
    """Whether it is of a workflow that stands in a row of this one, and has params of its own."""

    @property
    def task(self) -> str | None:
        """The task that the row runs; a DYNAMIC row has a name too, and runs another one."""
        return str(self.row.get("name")) if self.row.get("type", "SIMPLE") == "SIMPLE" else None

    def reads_params(self) -> bool:
        """Whether any of it comes from the params of the workflow."""
        values = (self.given, *as_mapping(self.given).values())
        return not self.is_within and any(_path_in(value) is not None for value in values)

    def check_names(
        self, task: str, fields: _Fields, params: Mapping[str, object], taken: AbstractSet[str]
    ) -> None:
        """Refuse a field that is like one of the task, and tell of any other unknown one."""
        for name in sorted(self._whole(params).keys() - fields.known):
            if self._path_of(name) in taken:
                continue  # it is for something else in the definition
            text = f"{task} has no param {name}, says its TaskDef on Conductor"
            if near := get_close_matches(name, sorted(fields.known), n=1):
                again = "if the code has it, run `perago register` first"
                raise CommandUsageError(f"{text}; did you mean {near[0]}? ({again})")
            warn(f"{text}, and ignores it")

    def missing(self, fields: _Fields, params: Mapping[str, object]) -> dict[str, str]:
        """Where in the params a field would be that the task needs and is not given, and which."""
        given = self._whole(params)
        # An unknown name may be the second name of a field, which the schema does not show.
        if given.keys() - fields.known:
            return {}
        absent = {
            path: name
            for name in fields.required
            # A name with a dot is found as a name, and not at a path.
            if name not in given and (path := self._path_of(name)) and _at(params, path) is _ABSENT
        }
        if _path_in(self.given) is not None:
            return absent
        # Conductor gives null for a path at which nothing is, and some fields take that.
        return {path: name for path, name in absent.items() if not fields.takes_null(name)}

    def _path_of(self, name: str) -> str | None:
        """Where in the params a field of the task comes from; None for one that does not."""
        whole = _path_in(self.given)
        if whole is None:
            return _path_in(as_mapping(self.given).get(name))
        return _joined(whole, name)

    def _whole(self, params: Mapping[str, object]) -> Mapping[str, object]:
        """All params of the task, where one path has them; else nothing."""
        whole = _path_in(self.given)
        return as_mapping(None if whole is None else _at(params, whole))


def _readers(definition: Mapping[str, object]) -> Iterator[_Reader]:
    """Every row with params, wherever it stands."""
    rows, always_runs = definition.get("tasks"), True
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        always_runs = always_runs and _MAY_NOT_RUN.search(json.dumps(row)) is None
        yield from _readers_in(row, always_runs=always_runs)


def _readers_in(value: object, *, always_runs: bool, is_within: bool = False) -> Iterator[_Reader]:
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _readers_in(each, always_runs=always_runs, is_within=is_within)
    elif row := as_mapping(value):
        always_runs = always_runs and not row.get("optional")  # its failure ends no workflow
        given = as_mapping(row.get("inputParameters")).get("params")
        if given is not None:
            yield _Reader(row, given, always_runs, is_within)
        for key, each in row.items():
            below = is_within or key == "workflowDefinition"
            yield from _readers_in(each, always_runs=always_runs, is_within=below)


def _paths_taken(
    definition: Mapping[str, object], read: Iterable[tuple[_Reader, _Fields]]
) -> set[str]:
    """The paths that expressions name, each with those above it, and those of fields of tasks."""
    taken: set[str] = set()
    for path in _NAMED.findall(json.dumps(definition)):
        taken.update(accumulate(path.split("."), _joined))
    for reader, fields in read:
        if (path := _path_in(reader.given)) is not None:
            taken.update(_joined(path, name) for name in fields.known)
    return taken


async def _tasks_of(conductor: ConductorInstallation, reader: _Reader) -> list[str]:
    """The tasks that get what a row gives."""
    if not reader.reads_params():
        return []
    if reader.row.get("type") == "SUB_WORKFLOW":
        return await _tasks_of_child(conductor, as_mapping(reader.row.get("subWorkflowParam")))
    return [] if reader.task is None else [reader.task]


async def _tasks_of_child(
    conductor: ConductorInstallation, started: Mapping[str, object]
) -> list[str]:
    """The tasks of another workflow that take its params whole, as in a branch of a fork."""
    if started.get("workflowDefinition"):  # it runs, whatever is registered by its name
        return []
    child = await _unless_refused(conductor.workflows.read_definition(str(started.get("name"))))
    # An older version may have other tasks, and only the newest one can be read.
    if child is None or started.get("version") not in {None, child.get("version")}:
        return []
    return [
        each.task
        for each in _readers(child)
        if each.task is not None and each.always_runs and _path_in(each.given) == ""
    ]


async def _unless_refused(
    reading: Awaitable[Mapping[str, object] | None],
) -> Mapping[str, object] | None:
    """What is read; None where the key may not, or the name cannot be asked for.

    A worker needs neither, and it looks at the params again.
    """
    try:
        return await reading
    except (AccessDeniedError, RequestRefusedError):
        return None


def _fields_of(taskdef: Mapping[str, object] | None) -> _Fields | None:
    """The fields of the params in a TaskDef; None where it says nothing of them."""
    found = as_mapping(taskdef)
    for key in ("inputSchema", "data", "properties", "params"):
        found = as_mapping(found.get(key))
    known, required = found.get("properties"), found.get("required", [])
    if not isinstance(known, Mapping) or not isinstance(required, list):
        return None
    return _Fields(
        cast("Mapping[str, object]", known), [str(name) for name in cast("list[object]", required)]
    )


def _joined(path: str | None, name: str) -> str:
    return f"{path}.{name}" if path else name


def _path_in(value: object) -> str | None:
    """The path below the params that an expression reads, empty for all of them."""
    found = _PATH.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found["path"] or ""


def _at(params: Mapping[str, object], path: str) -> object:
    """What is at a path; `_ABSENT` where an object has no such name."""
    found: object = params
    for name in path.split(".") if path else ():
        inside = as_mapping(found)
        if inside is not found:  # no object
            return None
        found = inside.get(name, _ABSENT)
        if found is _ABSENT:
            break
    return found
