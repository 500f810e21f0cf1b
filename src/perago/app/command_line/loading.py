"""Loads task modules for a command: settings first, then the imports, then what to warn about.

An import that fails shows the author's own lines and nothing of ours. Builds no TaskDef.
"""

from collections.abc import Sequence
from pathlib import Path

from perago.app.authoring.model_graph import (
    task_models_with_config,
    validate_no_root_task_models,
)
from perago.app.authoring.task_declaration import load_module_task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.command_line.import_failure import load_failure
from perago.app.command_line.reporting import warn
from perago.domain.authoring_errors import TaskDefinitionError

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
    if target.endswith(".py") and Path(target).is_file():
        # As a dotted name it is a module `py` in a package, which nobody means.
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    try:
        return load_module_task(target)
    except (Exception, SystemExit) as error:  # a module may end the process as a script does
        raise load_failure(target, error) from error
