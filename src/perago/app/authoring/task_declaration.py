"""Reads the contract of a task from its function: which parameters, and which two models.

The checks run in the order of the public 0.6.1, with its texts. Calls nothing.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_type_hints, overload

from pydantic import BaseModel

from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.prefix_template import refuse_placeholders
from perago.app.authoring.task_definition import MetricSpec, TaskControls, TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import TaskDefinitionError
from perago.ports.workspace import SparkWorkspace

_ACCEPTED = (
    "task function must be exactly (workspace: Path, params: ParamsModel),"
    " (workspace: Path, params: ParamsModel, metrics: MetricRecorder),"
    " (params: ParamsModel), or (params: ParamsModel, metrics: MetricRecorder)"
)


@dataclass(frozen=True)
class DeclaredParts:
    """Which optional parts the decorator was given; the parameters must match them."""

    workspace: bool
    metrics: bool


@dataclass(frozen=True)
class TaskModels:
    """The two models a task function is annotated with, and whether Spark opens its workspace."""

    params: type[BaseModel]
    result: type[BaseModel]
    on_spark: bool = False


def read_signature(fn: Callable[..., Any], declared: DeclaredParts) -> TaskModels:
    """Return the models of `fn`, or say which rule its signature breaks.

    A function is synchronous because an executor runs one at a time and has no event loop for it:
    calling an `async def` would return a coroutine and run nothing.
    """
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TaskDefinitionError("task function must be a synchronous function", code="PRG-T006")
    names = _plain_parameter_names(fn)
    try:
        hints = get_type_hints(fn)
    except Exception as error:
        raise TaskDefinitionError(
            f"failed to resolve task type hints: {error}", code="PRG-T008"
        ) from error
    _check_parameters(names, hints, declared)
    return TaskModels(
        params=_model(hints.get("params"), "params"),
        result=_model(hints.get("return"), "return value"),
        on_spark=hints.get("workspace") is SparkWorkspace,
    )


def _plain_parameter_names(fn: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(fn).parameters.values()
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in parameters):
        raise TaskDefinitionError(
            "task function must not use *args, **kwargs, or keyword-only fields",
            code="PRG-T007",
        )
    if any(each.default is not each.empty for each in parameters):
        raise TaskDefinitionError(
            "task function parameters must not declare defaults", code="PRG-T007"
        )
    return [each.name for each in parameters]


def _check_parameters(names: list[str], hints: dict[str, Any], declared: DeclaredParts) -> None:
    match names:
        case [_, _, last]:
            _check_workspace_parameters(names, hints, declared)
            _refuse_if(last != "metrics", "metrics-enabled task parameter must be named metrics")
            _check_metrics_parameter(hints, declared)
        case ["params", "metrics"]:
            _refuse_workspace(declared)
            _check_metrics_parameter(hints, declared)
        case [_, _]:
            _check_workspace_parameters(names, hints, declared)
            _refuse_metrics(declared)
        case [only]:
            _refuse_if(only != "params", "workspace-free task parameter must be named params")
            _refuse_workspace(declared)
            _refuse_metrics(declared)
        case _:
            raise TaskDefinitionError(_ACCEPTED, code="PRG-T009")


def _check_workspace_parameters(
    names: list[str], hints: dict[str, Any], declared: DeclaredParts
) -> None:
    _refuse_if(
        names[:2] != ["workspace", "params"],
        "workspace task parameters must be named workspace and params",
    )
    _refuse_if(
        hints.get("workspace") not in (Path, SparkWorkspace),
        "workspace must be annotated as pathlib.Path",
    )
    _refuse_if(
        not declared.workspace,
        "workspace task functions require workspace=WorkspaceSpec(...)",
    )


def _check_metrics_parameter(hints: dict[str, Any], declared: DeclaredParts) -> None:
    _refuse_if(
        hints.get("metrics") is not MetricRecorder,
        "metrics must be annotated as perago.MetricRecorder",
    )
    _refuse_if(not declared.metrics, "metrics parameter requires metrics=MetricSpec(...)")


def _refuse_workspace(declared: DeclaredParts) -> None:
    _refuse_if(
        declared.workspace,
        "workspace-free task functions must not declare workspace=WorkspaceSpec(...)",
    )


def _refuse_metrics(declared: DeclaredParts) -> None:
    _refuse_if(declared.metrics, "metrics=MetricSpec(...) requires a metrics parameter")


def _refuse_if(condition: bool, text: str) -> None:  # noqa: FBT001  # reads as a sentence
    if condition:
        raise TaskDefinitionError(text, code="PRG-T009")


def _model(annotation: object, part: str) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    raise TaskDefinitionError(
        f"{part} must be annotated as a Pydantic BaseModel subclass", code="PRG-T010"
    )


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
        if workspace is not None:
            refuse_placeholders(workspace.prefix, models.params)
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


def task_of(fn: object) -> TaskDefinition:
    """Return the definition that the decorator attached to a function."""
    definition = getattr(fn, _ATTRIBUTE, None)
    if isinstance(fn, Mapping):
        text = (
            "this is a workflow definition, not a task: give its tasks to register(), it to start()"
        )
        raise TaskDefinitionError(text, code="PRG-T014")
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
    position = (fn.__qualname__, fn.__code__.co_firstlineno)
    _declared.setdefault(fn.__module__, {})[position] = definition
