"""The `@task` decorator, and finding the tasks that a module declares.

Checks what an author wrote, in the order and with the texts of the public 0.6.1. Runs nothing.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from pydantic import BaseModel

from perago.app.authoring.metric_recorder import MetricRecorder
from perago.app.authoring.metric_spec import MetricSpec
from perago.app.authoring.task_controls import TaskControls
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.task_signature import DeclaredParts, read_signature
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.authoring_errors import TaskDefinitionError
from perago.ports.spark_workspace import SparkWorkspace

__all__ = ["TaskDefinition", "load_module_task", "load_module_tasks", "task", "task_of"]

WorkspaceBody = (
    Callable[[Path, Any], BaseModel]
    | Callable[[Path, Any, MetricRecorder], BaseModel]
    | Callable[[SparkWorkspace, Any], BaseModel]
    | Callable[[SparkWorkspace, Any, MetricRecorder], BaseModel]
)
WorkspaceFreeBody = Callable[[Any], BaseModel] | Callable[[Any, MetricRecorder], BaseModel]
Body = TypeVar("Body", bound=Callable[..., Any])
InWorkspace = TypeVar("InWorkspace", bound=WorkspaceBody)
WithoutWorkspace = TypeVar("WithoutWorkspace", bound=WorkspaceFreeBody)

_ATTRIBUTE = "__perago_task__"
# Keyed by the module a function is defined in, so that an imported task does not count twice.
_declared: dict[str, dict[tuple[str, int], TaskDefinition]] = {}


class WorkspaceDecorator(Protocol):
    """Returns the very function it is given, type included."""

    def __call__(self, fn: InWorkspace, /) -> InWorkspace: ...


class WorkspaceFreeDecorator(Protocol):
    """Returns the very function it is given, type included."""

    def __call__(self, fn: WithoutWorkspace, /) -> WithoutWorkspace: ...


@overload
def task(
    *,
    name: str,
    owner_email: str,
    workspace: WorkspaceSpec,
    description: str | None = None,
    metrics: MetricSpec | None = None,
    controls: TaskControls | None = None,
    strict_params: bool = False,
) -> WorkspaceDecorator: ...
@overload
def task(
    *,
    name: str,
    owner_email: str,
    workspace: None = None,
    description: str | None = None,
    metrics: MetricSpec | None = None,
    controls: TaskControls | None = None,
    strict_params: bool = False,
) -> WorkspaceFreeDecorator: ...


def task(  # noqa: PLR0913  # the public signature of 0.6.1
    *,
    name: str,
    owner_email: str,
    description: str | None = None,
    workspace: WorkspaceSpec | None = None,
    metrics: MetricSpec | None = None,
    controls: TaskControls | None = None,
    strict_params: bool = False,
    **unsupported: object,
) -> Callable[[Body], Body]:
    """Declare a function as the Conductor task `name`; the function itself is returned."""
    if unsupported:
        fields = ", ".join(sorted(unsupported))
        raise TaskDefinitionError(f"unsupported task decorator fields: {fields}", code="PRG-T002")

    def declare(fn: Body) -> Body:
        _check_name_and_owner(name, owner_email)
        _check_type("workspace", workspace, WorkspaceSpec)
        _check_type("metrics", metrics, MetricSpec)
        _check_type("controls", controls, TaskControls)
        if not isinstance(strict_params, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TaskDefinitionError("strict_params must be a bool", code="PRG-T004")
        if workspace is None and controls is not None and controls.publish_budget is not None:
            raise TaskDefinitionError(
                "publish_budget requires workspace=WorkspaceSpec(...)", code="PRG-T005"
            )
        declared = DeclaredParts(workspace=workspace is not None, metrics=metrics is not None)
        models = read_signature(fn, declared)
        definition = TaskDefinition(
            name=name,
            owner_email=owner_email,
            fn=fn,
            params_model=models.params,
            output_model=models.result,
            strict_params=strict_params,
            description=description,
            workspace=workspace,
            metrics=metrics,
            controls=controls or TaskControls(),
            on_spark=models.on_spark,
        )
        _register(fn, definition)
        return fn

    return declare


def task_of(fn: Callable[..., Any]) -> TaskDefinition:
    """Return the definition that the decorator attached to a function."""
    definition = getattr(fn, _ATTRIBUTE, None)
    if not isinstance(definition, TaskDefinition):
        raise TaskDefinitionError(f"{fn!r} is not a Perago task", code="PRG-T014")
    return definition


def load_module_task(module_target: str) -> TaskDefinition:
    """Import a module by its dotted name and return the one task it declares."""
    found = load_module_tasks(module_target)
    if len(found) > 1:
        raise TaskDefinitionError(
            f"{module_target} declares more than one Perago task", code="PRG-T014"
        )
    return found[0]


def load_module_tasks(module_target: str) -> list[TaskDefinition]:
    """Import a module by its dotted name and return its tasks in the order of their lines."""
    if not all(part.isidentifier() for part in module_target.split(".")):
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    importlib.import_module(module_target)
    found = list(_declared.get(module_target, {}).values())
    if not found:
        raise TaskDefinitionError(
            f"{module_target} does not declare a Perago task", code="PRG-T014"
        )
    return found


def _check_name_and_owner(name: str, owner_email: str) -> None:
    if not _is_text(name):
        raise TaskDefinitionError("task name is required", code="PRG-T003")
    if "/" in name or "\\" in name:
        raise TaskDefinitionError("task name must not contain path separators", code="PRG-T003")
    if not _is_text(owner_email):
        raise TaskDefinitionError("owner_email is required", code="PRG-T003")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_type(field: str, value: object, expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        raise TaskDefinitionError(f"{field} must be a {expected.__name__}", code="PRG-T004")


def _register(fn: Callable[..., Any], definition: TaskDefinition) -> None:
    setattr(fn, _ATTRIBUTE, definition)
    # The line tells two functions of one name apart, and lets a reload replace its own entry.
    place = (fn.__qualname__, fn.__code__.co_firstlineno)
    _declared.setdefault(fn.__module__, {})[place] = definition
