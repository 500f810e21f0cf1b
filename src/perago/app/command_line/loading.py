"""Loads task modules for a command: settings first, then the imports, then what to warn about.

An import that fails shows the author's own lines and nothing of ours. Builds no TaskDef.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perago.app.authoring.model_graph import (
    task_models_with_config,
    validate_no_root_task_models,
)
from perago.app.authoring.task_declaration import load_module_tasks
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.command_line.import_failure import load_failure
from perago.app.command_line.reporting import warn
from perago.domain.authoring_errors import TaskDefinitionError

TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="Which task, if the module declares several."),
]
_IGNORED_BUDGET = (
    "WorkspaceSpec(read_only=True) disables workspace publication;"
    " TaskControls.publish_budget is ignored."
)


def load_tasks(targets: Sequence[str]) -> list[TaskDefinition]:
    """Import the modules and return all their tasks; warnings are printed.

    Two tasks of one name are refused, because Conductor knows a task by its name alone.
    """
    tasks: list[TaskDefinition] = []
    homes: dict[str, str] = {}
    for target in targets:
        for task in _load(target):
            if task.name in homes:
                home = homes[task.name]
                who = f"{home} and {target} both declare" if home != target else f"{home} declares"
                twice = " twice" if home == target else ""
                raise TaskDefinitionError(f"{who} the task {task.name}{twice}", code="PRG-T014")
            homes[task.name] = target
            warn_of(task)
            tasks.append(task)
    return tasks


def load_one_task(target: str, name: str | None) -> TaskDefinition:
    """Import a module and return the task of that name; without a name, the only one there is."""
    tasks = load_tasks([target])
    known = ", ".join(task.name for task in tasks)
    if name is None and len(tasks) > 1:
        # The first half is the text of 0.6.1, which allowed one task a module.
        text = f"{target} declares more than one Perago task: {known}; choose one with"
        raise TaskDefinitionError(f"{text} --task {tasks[0].name}", code="PRG-T014")
    for task in tasks:
        if name in {None, task.name}:
            return task
    text = f"{target} declares no task {name}; --task expects one of: {known}"
    raise TaskDefinitionError(text, code="PRG-T014")


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


def _load(target: str) -> list[TaskDefinition]:
    if target.endswith(".py") and Path(target).is_file():
        # As a dotted name it is a module `py` in a package, which nobody means.
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    try:
        return load_module_tasks(target)
    except (Exception, SystemExit) as error:  # a module may end the process as a script does
        raise load_failure(target, error) from error
