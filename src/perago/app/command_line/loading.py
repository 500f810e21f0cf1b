"""Loads task modules for a command: settings first, then the imports, then what to warn about.

An import that fails shows the author's own lines and nothing of ours. Builds no TaskDef.
"""

import importlib
import traceback
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from perago.app.authoring.model_graph import (
    task_models_with_config,
    validate_no_root_task_models,
)
from perago.app.authoring.task_declaration import load_module_task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.validation_reasons import validation_code
from perago.app.command_line.reporting import warn
from perago.domain.authoring_errors import TaskDefinitionError

_OURS, _IMPORTLIB = Path(__file__).parents[2], Path(importlib.__file__).parent
_IGNORED_BUDGET = (
    "WorkspaceSpec(read_only=True) disables workspace publication;"
    " TaskControls.publish_budget is ignored."
)


def load_tasks(targets: Sequence[str]) -> list[TaskDefinition]:
    """Import the modules and return their tasks; warnings are printed, two of a name refused."""
    tasks = [_load(target) for target in targets]
    names: dict[str, str] = {}
    for target, task in zip(targets, tasks, strict=True):
        if task.name in names:
            raise TaskDefinitionError(
                f"{names[task.name]} and {target} both declare the task {task.name}",
                code="PRG-T014",
            )
        names[task.name] = target
        warn_of(task)
    return tasks


def warn_of(task: TaskDefinition) -> None:
    """Refuse what cannot be a contract, and warn of what is declared in vain."""
    if task.workspace is not None and task.workspace.read_only and task.controls.publish_budget:
        warn(_IGNORED_BUDGET)
    validate_no_root_task_models(task)
    configured = task_models_with_config(task)
    if configured:
        names = ", ".join(model.__name__ for model in configured)
        warn(
            f"Pydantic ConfigDict on task model(s) {names} is not part of the Perago task"
            " contract; Perago does not guarantee TaskDef or runtime behavior for"
            " ConfigDict-configured task models."
        )


def _load(target: str) -> TaskDefinition:
    try:
        return load_module_task(target)
    except TaskDefinitionError as error:
        raise _placed(error, error) from error.__cause__
    except ValidationError as error:
        declared = TaskDefinitionError(str(error), code=validation_code(error))
        raise _placed(declared, error) from error
    except Exception as error:
        raise _import_failure(target, error) from error


def _placed(failure: TaskDefinitionError, error: Exception) -> TaskDefinitionError:
    """Say at which line of the author's the declaration stands."""
    for frame in _own_frames(error)[-1:]:
        failure.add_note(f"  at {frame.filename}:{frame.lineno}")
    return failure


def _import_failure(target: str, error: Exception) -> TaskDefinitionError:
    said = "".join(traceback.format_exception_only(error)).rstrip().splitlines()
    failure = TaskDefinitionError(f"{target} cannot be imported: {said[-1]}", code="PRG-T011")
    frames = "".join(traceback.StackSummary.from_list(_own_frames(error)).format()).rstrip()
    for part in (frames, "\n".join(said[:-1])):
        if part:
            failure.add_note(part)
    return failure


def _own_frames(error: Exception) -> list[traceback.FrameSummary]:
    """Frames of the author's code: not ours, not of the import system."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        # Without columns: from 3.13 on they would be marked below each line.
        traceback.FrameSummary(frame.filename, frame.lineno, frame.name, line=frame.line)
        for frame in frames
        if not _is_machinery(frame.filename)
    ]


def _is_machinery(filename: str) -> bool:
    path = Path(filename)
    return filename.startswith("<frozen importlib") or not {_OURS, _IMPORTLIB}.isdisjoint(
        path.parents
    )
