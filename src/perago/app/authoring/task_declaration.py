"""`@task` declares a function as a task, with a contract that is read from its signature.

The checks run in the order of the public 0.6.1, with its texts. Loads task modules by their names;
calls no task function.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import BaseModel

from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_definition import MetricSpec, TaskControls, TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec, refuse_placeholders
from perago.domain.errors import TaskDefinitionError
from perago.ports.workspace import SparkWorkspace

_ACCEPTED = (
    "task function must be exactly (workspace: Path, params: ParamsModel),"
    " (workspace: Path, params: ParamsModel, metrics: MetricRecorder),"
    " (params: ParamsModel), or (params: ParamsModel, metrics: MetricRecorder)"
)
PARAMETERS_MAX = 3
_ATTRIBUTE = "__perago_task__"
# Keyed by the module a function is defined in, so that an imported task does not count twice.
_declared: dict[str, dict[tuple[str, int], TaskDefinition]] = {}

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
) -> Callable[[InWorkspace], InWorkspace]: ...
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
) -> Callable[[WithoutWorkspace], WithoutWorkspace]: ...


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
        hints = _check_signature(fn, workspace=workspace is not None, metrics=metrics is not None)
        params_model = _model(hints.get("params"), "params")
        output_model = _model(hints.get("return"), "return value")
        if workspace is not None:
            refuse_placeholders(workspace.prefix, params_model)
        definition = TaskDefinition(
            name=name,
            owner_email=owner_email,
            fn=fn,
            params_model=params_model,
            output_model=output_model,
            strict_params=strict_params,
            description=description,
            workspace=workspace,
            metrics=metrics,
            controls=controls or TaskControls(),
            on_spark=hints.get("workspace") is SparkWorkspace,
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


def _check_signature(fn: Callable[..., Any], *, workspace: bool, metrics: bool) -> dict[str, Any]:
    """Return the annotations of a function, or say which rule its signature breaks.

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
    for is_broken, text in _rules(names, hints, workspace=workspace, metrics=metrics):
        if is_broken:
            raise TaskDefinitionError(text, code="PRG-T009")
    return hints


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


def _rules(
    names: list[str], hints: Mapping[str, Any], *, workspace: bool, metrics: bool
) -> Iterator[tuple[bool, str]]:
    """Every rule for these parameters: whether it is broken, and its text.

    `workspace` and `metrics` are what the decorator was given; the parameters must match them.
    """
    yield not 1 <= len(names) <= PARAMETERS_MAX, _ACCEPTED
    is_measured = len(names) == PARAMETERS_MAX or names == ["params", "metrics"]
    if names == ["params", "metrics"] or len(names) == 1:
        yield names[0] != "params", "workspace-free task parameter must be named params"
        text = "workspace-free task functions must not declare workspace=WorkspaceSpec(...)"
        yield workspace, text
    else:
        text = "workspace task parameters must be named workspace and params"
        yield names[:2] != ["workspace", "params"], text
        is_path = hints.get("workspace") in (Path, SparkWorkspace)
        yield not is_path, "workspace must be annotated as pathlib.Path"
        yield not workspace, "workspace task functions require workspace=WorkspaceSpec(...)"
    if is_measured:
        yield names[-1] != "metrics", "metrics-enabled task parameter must be named metrics"
        is_recorder = hints.get("metrics") is MetricRecorder
        yield not is_recorder, "metrics must be annotated as perago.MetricRecorder"
        yield not metrics, "metrics parameter requires metrics=MetricSpec(...)"
    else:
        yield metrics, "metrics=MetricSpec(...) requires a metrics parameter"


def _model(annotation: object, part: str) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    raise TaskDefinitionError(
        f"{part} must be annotated as a Pydantic BaseModel subclass", code="PRG-T010"
    )
