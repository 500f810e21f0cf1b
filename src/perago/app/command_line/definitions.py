"""`perago register` and `perago workflow new`: what Conductor is told of task modules.

`register` makes the TaskDefs in Conductor what the code says, and keeps fields of the operator.
`workflow new` writes workflow definitions for the tasks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from perago.app.authoring.task_definition import (
    TaskDefDifference,
    build_taskdef,
    taskdef_differences,
    taskdef_to_register,
)
from perago.app.authoring.workflow_definition import (
    Definition,
    fork_definitions,
    needs_transaction,
    sequence_definition,
)
from perago.app.command_line.loading import Targets, load_tasks
from perago.app.command_line.reporting import (
    CommandGroup,
    CommandUsageError,
    JsonOption,
    note,
    python_warnings,
    say,
    say_json,
    say_lines,
)
from perago.app.command_line.services import ask
from perago.app.runs.finish import served_tasks
from perago.app.settings.runtime_config import runtime_config
from perago.app.settings.settings import load_settings
from perago.domain.run import OnMoved
from perago.ports.conductor import TaskDefinitions, Workflows

app = CommandGroup("Write workflow definitions for tasks.")


@dataclass(frozen=True)
class Registration:
    """What was done, or would be, with one TaskDef."""

    task: str
    action: str
    differences: Sequence[TaskDefDifference] = ()


def register(
    targets: Targets,
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
        say_json("register/1", {"dry_run": dry_run, "tasks": [asdict(each) for each in done]})
        return
    for each in done:
        say(f"{'would be ' if dry_run else ''}{each.action}: {each.task}")
        for difference in each.differences:
            say(f"  {difference}")


async def register_taskdefs(
    definitions: TaskDefinitions, built: Sequence[Mapping[str, Any]], *, dry_run: bool
) -> list[Registration]:
    """Compare each document with what is registered, and store those that differ."""
    done: list[Registration] = []
    for each in built:
        registered = await definitions.read(each["name"])
        differences = [] if registered is None else taskdef_differences(registered, each)
        if registered is not None and not differences:
            done.append(Registration(each["name"], "unchanged"))
            continue
        if not dry_run:
            await definitions.put(taskdef_to_register(registered, each))
        action = "created" if registered is None else "updated"
        done.append(Registration(each["name"], action, differences))
    return done


@app.subcommand("new", short_help="Write a workflow definition for tasks.")
def new(  # noqa: PLR0913 - one parameter an option
    targets: Targets,
    *,
    name: Annotated[
        str | None, typer.Option(help="Name of the workflow. Default: that of the first module.")
    ] = None,
    fork: Annotated[
        bool, typer.Option("--fork", help="Run the tasks side by side, each in its own workflow.")
    ] = False,
    transaction: Annotated[
        bool, typer.Option("--transaction", help="Show the target all of the workflow or nothing.")
    ] = False,
    on_moved: Annotated[
        OnMoved | None,
        typer.Option(help="What to do with a target that has moved. Default: refuse."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write one file a definition here."),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Create or replace the definitions on Conductor.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a workflow definition that runs tasks, one after the other or side by side.

    The input of the workflow is `workspace`, and `params` with the params of each task under its
    reference name. Of several definitions the first is the workflow, the others are its branches.
    """
    if on_moved is not None and not transaction:
        raise CommandUsageError(needs_transaction("--on-moved", "--transaction"))
    tasks = load_tasks(targets)
    title = name or targets[0].rpartition(".")[2]
    if fork:
        definitions = fork_definitions(title, tasks, transaction=transaction, on_moved=on_moved)
    else:
        definitions = [
            sequence_definition(title, tasks, transaction=transaction, on_moved=on_moved)
        ]
    files = [] if output is None else _write(output, definitions)
    if register:
        ask(lambda services: _register(services.conductor().workflows, definitions))
    if as_json:
        facts = {"registered": register, "files": [str(each) for each in files]}
        say_json("workflow/1", {"definitions": definitions, **facts})
        return
    _tell(files, definitions, registered=register)
    note(_next(title, targets, definitions, registered=register))


def _tell(files: Sequence[Path], definitions: Sequence[Definition], *, registered: bool) -> None:
    """Where the definitions are now; themselves if they are nowhere."""
    for path in files:
        say(str(path))
    if registered:
        for each in definitions:
            say(f"registered: {each['name']}")
    elif not files:
        say_lines(_text(definitions if len(definitions) > 1 else definitions[0]))


def _next(
    title: str,
    targets: Sequence[str],
    definitions: Sequence[Definition],
    *,
    registered: bool,
) -> str:
    """What to type now: nothing can be started before Conductor knows it."""
    start = f"start it with `perago submit {title} --repo REPO --branch BRANCH`"
    if registered:
        return start
    tasks = f"perago register {' '.join(targets)}"
    each = "it" if len(definitions) == 1 else "them"
    return (
        f"Conductor does not know {each} yet: type this command again with --register, and"
        f" `{tasks}` for the tasks; then {start}"
    )


def _write(directory: Path, definitions: Sequence[Mapping[str, object]]) -> list[Path]:
    """One file for each definition, under its name."""
    directory.mkdir(parents=True, exist_ok=True)
    files = [directory / f"{each['name']}.json" for each in definitions]
    for path, definition in zip(files, definitions, strict=True):
        path.write_text(_text(definition) + "\n", encoding="utf-8")
    return files


def _text(document: object) -> str:
    return json.dumps(document, indent=2)


async def _register(workflows: Workflows, definitions: Sequence[Mapping[str, object]]) -> None:
    """Put them on Conductor, branches first, so that a fork never starts without its branches."""
    for definition in reversed(definitions):
        await workflows.put_definition(definition)
