"""Calls a task function with validated params and validates what it returns.

For workers and for tests of task functions. Nothing is downloaded, staged or sent.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from perago.app.authoring import envelope
from perago.app.authoring.guardrails import check_guardrails
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.errors import TaskInputError
from perago.ports.workspace import SparkWorkspace

_CODE = "PRG-I007"


def invoke_body(
    task: TaskDefinition,
    params: Mapping[str, object],
    workspace: Path | SparkWorkspace | None,
    *,
    metrics: MetricRecorder | None = None,
) -> dict[str, Any]:
    """Run the function of a task on params as Conductor gave them; return its result as JSON."""
    return _call(task, envelope.params_model_value(task, params), workspace, metrics)


def invoke_workspace_task_body(
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    workspace_dir: Path,
    *,
    metrics: MetricRecorder | None = None,
) -> dict[str, Any]:
    """Run a workspace task on a directory, guardrails included; return `{"result": ...}`.

    A promise of 0.6.1: it raises what the function raises, and works in the directory itself. It is
    no attempt. What the function wrote is not compared, so a name or a link that cannot be
    published is not noticed; `perago run` and `perago.testing.TaskEnvironment` run a whole attempt.
    """
    if task.workspace is None:
        raise TaskInputError("invoke_workspace_task_body only supports workspace tasks", code=_CODE)
    envelope.read_workspace_input(input_data, strict=False)
    params = envelope.read_params(task, input_data)
    check_guardrails(workspace_dir, task.workspace.pre, "pre")
    result = _call(task, params, workspace_dir, metrics)
    check_guardrails(workspace_dir, task.workspace.post, "post")
    return {"result": result}


def invoke_workspace_free_task(
    task: TaskDefinition,
    input_data: Mapping[str, Any],
    *,
    metrics: MetricRecorder | None = None,
) -> dict[str, Any]:
    """Run a task without a workspace; return `{"result": ...}`."""
    if task.has_workspace:
        raise TaskInputError(
            "invoke_workspace_free_task only supports workspace-free tasks", code=_CODE
        )
    return {"result": _call(task, envelope.read_params(task, input_data), None, metrics)}


def _call(
    task: TaskDefinition,
    params: BaseModel,
    workspace: Path | SparkWorkspace | None,
    metrics: MetricRecorder | None,
) -> dict[str, Any]:
    arguments: list[object] = [] if workspace is None else [workspace]
    arguments.append(params)
    if task.metrics is not None:
        if metrics is None:
            raise TaskInputError(
                "metrics-enabled task invocation requires a MetricRecorder", code=_CODE
            )
        arguments.append(metrics)
    return envelope.validate_result(task, task.fn(*arguments))
