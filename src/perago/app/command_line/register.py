"""`perago register`: make the TaskDefs in Conductor what the code says.

Fields of the operator are kept. With `--dry-run` only the difference is printed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from perago.app.authoring.taskdef import (
    TaskDefDifference,
    build_taskdef,
    taskdef_differences,
    taskdef_to_register,
)
from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import (
    JsonOption,
    python_warnings,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.command_line.services import ask
from perago.app.runs.built_in import served_tasks
from perago.app.settings.runtime_config import runtime_config
from perago.app.settings.settings import load_settings
from perago.ports.conductor import TaskDefinitions


@dataclass(frozen=True)
class Registration:
    """What was done, or would be, with one TaskDef."""

    task: str
    action: str
    differences: Sequence[TaskDefDifference] = ()


@reports_errors_by_class
def register(
    targets: Annotated[
        list[str], typer.Argument(metavar="MODULE", help="Importable names of task modules.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the difference and change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or update TaskDefs on Conductor."""
    settings = load_settings()
    for target in targets:
        runtime_config(settings, target, probe_roots=False)
    tasks = served_tasks(load_tasks(targets))
    with python_warnings():
        built = [build_taskdef(task) for task in tasks]
    done = ask(
        lambda services: register_taskdefs(
            services.conductor().definitions, built, dry_run=dry_run
        ),
        settings,
    )
    if as_json:
        say_json("register/1", {"dry_run": dry_run, "tasks": [_facts(each) for each in done]})
        return
    for each in done:
        say(f"{'would be ' if dry_run else ''}{each.action}: {each.task}")
        for difference in each.differences:
            say(f"  {difference}")


async def register_taskdefs(
    definitions: TaskDefinitions, built: Sequence[Mapping[str, Any]], *, dry_run: bool
) -> list[Registration]:
    """Compare each document with what is registered, and store those that differ."""
    return [await _register_one(definitions, each, dry_run=dry_run) for each in built]


async def _register_one(
    definitions: TaskDefinitions, built: Mapping[str, Any], *, dry_run: bool
) -> Registration:
    name = built["name"]
    registered = await definitions.read(name)
    differences = [] if registered is None else taskdef_differences(registered, built)
    if registered is not None and not differences:
        return Registration(name, "unchanged")
    if not dry_run:
        await definitions.put(taskdef_to_register(registered, built))
    return Registration(name, "created" if registered is None else "updated", differences)


def _facts(each: Registration) -> dict[str, object]:
    return {
        "task": each.task,
        "action": each.action,
        "differences": [
            {"path": every.path, "registered": every.registered, "code": every.code}
            for every in each.differences
        ],
    }
