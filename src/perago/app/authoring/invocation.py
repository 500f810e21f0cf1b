"""Calling the team's function: parameters in, validated result out. Nothing around it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perago.app.authoring.envelope import validate_result
from perago.app.authoring.metric_recorder import MetricRecorder
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.authoring_errors import TaskInputError


def invoke_body(
    task: TaskDefinition,
    params: Mapping[str, object],
    workspace: Path | None,
    *,
    metrics: MetricRecorder | None = None,
) -> dict[str, Any]:
    """Validate the parameters, call the function, validate what it returned."""
    extra = "forbid" if task.strict_params else "ignore"
    arguments: list[Any] = [] if workspace is None else [workspace]
    arguments.append(task.params_model.model_validate(dict(params), extra=extra))
    if task.metrics is not None:
        if metrics is None:
            text = "metrics-enabled task invocation requires a MetricRecorder"
            raise TaskInputError(text, code="PRG-I007")
        arguments.append(metrics)
    return validate_result(task, task.fn(*arguments))
