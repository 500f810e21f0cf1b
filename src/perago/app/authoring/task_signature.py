"""Reads the contract of a task from its function: which parameters, and which two models.

The checks run in the order of the public 0.6.1, with its texts. Calls nothing.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel

from perago.app.authoring.metric_recorder import MetricRecorder
from perago.domain.authoring_errors import TaskDefinitionError
from perago.ports.spark_workspace import SparkWorkspace

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
    """Return the models of `fn`, or say which rule its signature breaks."""
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


def _model(annotation: object, place: str) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    raise TaskDefinitionError(
        f"{place} must be annotated as a Pydantic BaseModel subclass", code="PRG-T010"
    )
