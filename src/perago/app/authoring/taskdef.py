"""The Conductor TaskDef of a task: key order, defaults and schemas as the public 0.6.1 writes.

Builds and writes a document; who registers it is not known here.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from perago.app.authoring.contract_schema import (
    schema_for_model,
    schema_for_result,
    validate_no_root_task_models,
)
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.errors import TaskDefinitionError

# As 0.6.1 wrote it: Conductor finds a schema by name and version, and this is the only one.
TASKDEF_SCHEMA_VERSION = 1
TASKDEF_SCHEMA_TYPE = "JSON"

CONTROL_FIELD_MAP: Mapping[str, tuple[str, ...]] = {
    "retryCount": ("retry", "count"),
    "retryLogic": ("retry", "logic"),
    "retryDelaySeconds": ("retry", "delay_seconds"),
    "maxRetryDelaySeconds": ("retry", "max_delay_seconds"),
    "backoffJitterMs": ("retry", "jitter_ms"),
    "totalTimeoutSeconds": ("timeout", "total_seconds"),
    "timeoutPolicy": ("timeout", "policy"),
    "timeoutSeconds": ("timeout", "seconds"),
    "responseTimeoutSeconds": ("response_timeout_seconds",),
    "pollTimeoutSeconds": ("timeout", "poll_seconds"),
    "concurrentExecLimit": ("limits", "concurrent_exec_limit"),
    "rateLimitFrequencyInSeconds": ("limits", "rate_limit_frequency_in_seconds"),
    "rateLimitPerFrequency": ("limits", "rate_limit_per_frequency"),
}

_NAME = {"minLength": 1, "type": "string"}
_COMMIT = {"const": "commit", "type": "string"}


def build_taskdef(task: TaskDefinition) -> dict[str, Any]:
    """Return the TaskDef of a task; warns when its lease is shorter than its publish budget."""
    validate_no_root_task_models(task)
    _warn_of_short_lease(task)
    definition: dict[str, Any] = {"name": task.name, "ownerEmail": task.owner_email}
    if task.description is not None:
        definition["description"] = task.description
    for key, path in CONTROL_FIELD_MAP.items():
        value: Any = task.controls
        for step in path:
            value = getattr(value, step)
        if value is not None:
            definition[key] = value
    inputs = {"params": schema_for_model(task.params_model, allow_extra=not task.strict_params)}
    outputs = {"result": schema_for_result(task.output_model)}
    if task.has_workspace:
        inputs = {"workspace": workspace_schema()} | inputs
        outputs = {"workspace": workspace_schema()} | outputs
    definition["inputKeys"] = list(inputs)
    definition["outputKeys"] = list(outputs)
    definition["inputSchema"] = _schema(f"{task.name}.input", inputs, is_open=True)
    definition["outputSchema"] = _schema(f"{task.name}.output", outputs, is_open=False)
    return definition


def write_taskdef(task: TaskDefinition, output: Path) -> Path:
    """Write the TaskDef of a task as JSON and return the path; parents are created."""
    if output.suffix != ".json":
        message = "output must be a JSON file path, for example generated/features.build.json"
        raise TaskDefinitionError(message, code="PRG-T018")
    if output.is_dir():
        message = "output must be a JSON file path, not a directory"
        raise TaskDefinitionError(message, code="PRG-T018")
    document = taskdef_text(build_taskdef(task))  # may fail, and then leaves no folder
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(document, encoding="utf-8")
    return output


def taskdef_text(definition: Mapping[str, Any]) -> str:
    """Return a TaskDef as the text that is written to files."""
    return json.dumps(definition, indent=2) + "\n"


def workspace_schema() -> dict[str, Any]:
    """Schema of the workspace object: closed, with the reference type in either spelling."""
    return {
        "properties": {
            "repository": dict(_NAME),
            "branch": dict(_NAME),
            "refType": dict(_COMMIT),
            "ref_type": dict(_COMMIT),
            "ref": dict(_NAME),
        },
        "required": ["repository", "branch", "ref"],
        "anyOf": [{"required": ["refType"]}, {"required": ["ref_type"]}],
        "type": "object",
        "additionalProperties": False,
    }


def _schema(name: str, properties: dict[str, Any], *, is_open: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": is_open,
    }
    definitions: dict[str, Any] = {}
    for schema in properties.values():
        definitions |= schema.pop("$defs", {})
    if definitions:
        data["$defs"] = definitions
    return {
        "name": name,
        "version": TASKDEF_SCHEMA_VERSION,
        "type": TASKDEF_SCHEMA_TYPE,
        "data": data,
    }


def _warn_of_short_lease(task: TaskDefinition) -> None:
    budget = task.controls.publish_budget
    if budget is None or (task.workspace is not None and task.workspace.read_only):
        return
    lease, needed = task.controls.response_timeout_seconds, budget.response_timeout_seconds
    if lease < needed:
        warnings.warn(
            f"Task '{task.name}' has TaskControls.timeout.response_seconds={lease} which is"
            f" shorter than publish_budget.response_timeout_seconds={needed};"
            " responseTimeoutSeconds will use timeout.response_seconds",
            UserWarning,
            stacklevel=3,
        )


# Written only when the author sets them, so that their absence is a statement as well.
_OPTIONAL = {
    "description": (None, ""),
    "concurrentExecLimit": (None, 0),
    "rateLimitFrequencyInSeconds": (None, 0, 1),
    "rateLimitPerFrequency": (None, 0),
}
# Written by the server when a definition is stored.
_SERVERS_OWN = frozenset({"createTime", "updateTime", "createdBy", "updatedBy"})
_ABSENT = "(absent)"


@dataclass(frozen=True)
class TaskDefDifference:
    """One field that differs; the path has dots."""

    path: str
    registered: object
    code: object

    def __str__(self) -> str:
        return f"{self.path}: registered {self.registered!r}, code {self.code!r}"


def taskdef_differences(
    registered: Mapping[str, Any], built: Mapping[str, Any]
) -> list[TaskDefDifference]:
    """Return what registering `built` would change, in the order of its fields."""
    found = [
        difference
        for key, value in built.items()
        for difference in _compare(key, registered.get(key, _ABSENT), value)
    ]
    for key, unset in _OPTIONAL.items():
        if key not in built and registered.get(key) not in unset:
            found.append(TaskDefDifference(key, registered[key], _ABSENT))
    return found


def taskdef_to_register(
    registered: Mapping[str, Any] | None, built: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document to store: ours, with the fields of the operator kept."""
    ours = _SERVERS_OWN | set(_OPTIONAL)
    kept = {key: value for key, value in (registered or {}).items() if key not in ours}
    return kept | dict(built)


def _compare(path: str, registered: object, code: object) -> Iterator[TaskDefDifference]:
    there, here = _fields(registered), _fields(code)
    if there is not None and here is not None:
        # Conductor stamps a schema like a definition; deeper down such names are properties.
        stamped = frozenset[str]() if "." in path else _SERVERS_OWN
        for key in dict.fromkeys([*here, *(each for each in there if each not in stamped)]):
            yield from _compare(f"{path}.{key}", there.get(key, _ABSENT), here.get(key, _ABSENT))
    elif registered != code:
        yield TaskDefDifference(path, registered, code)


def _fields(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
