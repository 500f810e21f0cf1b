"""`perago workflow new`: write a Conductor workflow definition for the tasks of modules."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import (
    Definition,
    fork_definitions,
    sequence_definition,
)
from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import (
    CommandUsageError,
    JsonOption,
    command_group,
    note,
    reports_errors_by_class,
    say,
    say_json,
    say_lines,
)
from perago.app.command_line.services import ask
from perago.domain.finish import OnMoved
from perago.ports.conductor import Workflows

app = command_group("Write workflow definitions for tasks.")


@app.callback()
def _workflow() -> None:
    """Keep `new` a word of its own: a group of one command would be that command."""


@app.command("new", short_help="Write a workflow definition for tasks.")
@reports_errors_by_class
def new(  # noqa: PLR0913 - one parameter an option
    targets: Annotated[
        list[str], typer.Argument(metavar="MODULE", help="Importable names of task modules.")
    ],
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
        raise CommandUsageError("--on-moved needs --transaction: only a transaction looks for that")
    tasks = load_tasks(targets)
    title = name or targets[0].rpartition(".")[2]
    write = fork_definitions if fork else _one_after_the_other
    definitions = write(title, tasks, transaction=transaction, on_moved=on_moved)
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


def _one_after_the_other(
    name: str, tasks: Sequence[TaskDefinition], *, transaction: bool, on_moved: OnMoved | None
) -> list[Definition]:
    return [sequence_definition(name, tasks, transaction=transaction, on_moved=on_moved)]


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
