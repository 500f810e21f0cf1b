"""Loads task modules for commands, and says why one could not be loaded.

`load_failure` gives one line of cause and the author's own lines: frames of Perago, of the import
system and of libraries are left out, because the mistake is in none of them. `load_tasks` and
`load_one_task` import modules and warn of what a declaration ignores.
"""

import importlib
import sysconfig
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from perago.app.authoring import task_definition
from perago.app.authoring.failure import validation_code
from perago.app.authoring.guardrails import WorkspaceGuardrail
from perago.app.authoring.task_declaration import load_module_tasks
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.command_line.reporting import warn
from perago.domain.errors import TaskDefinitionError

# Frames below these are never the author's. Perago by its folder, because it may be installed from
# a checkout, outside of every library folder.
_MACHINERY = frozenset({Path(__file__).parents[2], Path(importlib.__file__).parent})
_LIBRARIES = frozenset(
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_DECLARATIONS = {
    model.__name__: model
    for model in (
        WorkspaceSpec,
        WorkspaceGuardrail,
        task_definition.RetryPolicy,
        task_definition.TimeoutPolicy,
        task_definition.ExecutionLimits,
        task_definition.PublishBudget,
        task_definition.TaskControls,
        task_definition.MetricSpec,
    )
}
# How a line of pydantic's messages begins that names a web page for its developers; it is left out.
_PYDANTICS_HELP = "For further information visit"


def load_failure(target: str, error: BaseException) -> TaskDefinitionError:
    """Return the error a command ends with when loading `target` raised `error`."""
    if isinstance(error, TaskDefinitionError):
        return _placed(error, error)
    # Of another model it is an error inside the author's module, like any other exception.
    if isinstance(error, ValidationError) and error.title in _DECLARATIONS:
        return _placed(_declaration_error(error), error)
    if isinstance(error, ModuleNotFoundError) and _is_target(target, error.name):
        return _missing(target, error)
    return _import_failure(target, error)


def _placed(failure: TaskDefinitionError, error: BaseException) -> TaskDefinitionError:
    """Say at which line of the author's the declaration stands."""
    for frame in _own_frames(error)[-1:]:
        failure.add_note(f"  at {frame.filename}:{frame.lineno}")
    return failure


def _declaration_error(error: ValidationError) -> TaskDefinitionError:
    """One line for the values that one of the declared models refused."""
    known = list(_DECLARATIONS[error.title].model_fields)
    said: list[str] = []
    for each in error.errors(include_url=False, include_context=False):
        field = ".".join(map(str, each["loc"]))
        text = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            near = get_close_matches(field, known, n=1)
            hint = f"did you mean {near[0]}" if near else f"known: {', '.join(known)}"
            text = f"there is no such field; {hint}"
        elif field and each["type"] != "missing":  # a missing field has no value to show
            text = f"{text}, found {each['input']!r}"
        said.append(f"{field}: {text}" if field else text)
    code = validation_code(error)
    return TaskDefinitionError(f"{error.title}: {'; '.join(said)}", code=code)


def _missing(target: str, error: ModuleNotFoundError) -> TaskDefinitionError:
    """There is no such module, so that there are no lines to show."""
    failure = TaskDefinitionError(
        f"{target} cannot be imported: ModuleNotFoundError: {error}", code="PRG-T020"
    )
    folder = Path.cwd().joinpath(*target.split(".")[:-1])
    here = [path.stem for path in folder.glob("*.py")] if folder.is_dir() else []
    near = get_close_matches(target.rpartition(".")[2], here, n=1)
    hint = f"; did you mean {'.'.join([*target.split('.')[:-1], *near])}" if near else ""
    failure.add_note(f"  looked in the current directory, {Path.cwd()}{hint}")
    return failure


def _import_failure(target: str, error: BaseException) -> TaskDefinitionError:
    said = [
        line
        for line in "".join(traceback.format_exception_only(error)).splitlines()
        if line.strip() and not line.lstrip().startswith(_PYDANTICS_HELP)
    ]
    # Of a syntax error the last line says what it is, of all others the first one.
    cause = said.pop(-1 if isinstance(error, SyntaxError) else 0)
    failure = TaskDefinitionError(f"{target} cannot be imported: {cause}", code="PRG-T011")
    frames = "".join(traceback.StackSummary.from_list(_own_frames(error)).format()).rstrip()
    for part in (frames, "\n".join(said)):
        if part:
            failure.add_note(part)
    return failure


def _is_target(target: str, missing: str | None) -> bool:
    """Whether the missing module is the one asked for, or a package it should be in."""
    return missing is not None and f"{target}.".startswith(f"{missing}.")


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Frames of the author's code; those of libraries only when there are no others."""
    outside = [
        # Without columns: from 3.13 on they would be marked below each line.
        traceback.FrameSummary(frame.filename, frame.lineno, frame.name, line=frame.line)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ") and not _is_below(frame.filename, _MACHINERY)
    ]
    return [frame for frame in outside if not _is_below(frame.filename, _LIBRARIES)] or outside


def _is_below(filename: str, folders: frozenset[Path]) -> bool:
    return not folders.isdisjoint(Path(filename).parents)


Targets = Annotated[
    list[str], typer.Argument(metavar="MODULE", help="Importable names of task modules.")
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="Which task, if the module declares several."),
]
_IGNORED_BUDGET = (
    "WorkspaceSpec(read_only=True) disables workspace publication;"
    " TaskControls.publish_budget is ignored."
)


def load_tasks(targets: Sequence[str]) -> list[task_definition.TaskDefinition]:
    """Import the modules and return all their tasks; warnings are printed.

    Two tasks of one name are refused, because Conductor knows a task by its name alone.
    """
    tasks: list[task_definition.TaskDefinition] = []
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


def load_one_task(target: str, name: str | None) -> task_definition.TaskDefinition:
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


def warn_of(task: task_definition.TaskDefinition) -> None:
    """Refuse what cannot be a contract, and warn of what is declared in vain."""
    if task.workspace is not None and task.workspace.read_only and task.controls.publish_budget:
        warn(_IGNORED_BUDGET)
    task_definition.validate_no_root_task_models(task)
    configured = task_definition.task_models_with_config(task)
    if configured:
        names = ", ".join(model.__name__ for model in configured)
        warn(
            f"Pydantic ConfigDict on task model(s) {names} is not part of the Perago task"
            " contract; Perago does not guarantee TaskDef or runtime behavior for"
            " ConfigDict-configured task models."
        )


def _load(target: str) -> list[task_definition.TaskDefinition]:
    if target.endswith(".py") and Path(target).is_file():
        # As a dotted name it is a module `py` in a package, which is never meant.
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    try:
        return load_module_tasks(target)
    except (Exception, SystemExit) as error:  # a module may end the process as a script does
        raise load_failure(target, error) from error
