"""`perago extract`: write the TaskDef of one task to a file.

Prints the path that was written and nothing else. Needs no service.
"""

from pathlib import Path
from typing import Annotated

import typer

from perago.app.authoring.taskdef import write_taskdef
from perago.app.command_line.loading import TaskOption, load_one_task
from perago.app.command_line.reporting import (
    JsonOption,
    python_warnings,
    reports_errors,
    say,
    say_json,
)
from perago.app.settings.runtime_config import runtime_config
from perago.app.settings.settings import load_settings


@reports_errors
def extract(
    target: Annotated[str, typer.Argument(metavar="MODULE", help="A task module.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The JSON file to write.", show_default=False)
    ],
    name: TaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the Conductor TaskDef of one task."""
    runtime_config(load_settings(), target)
    task = load_one_task(target, name)
    with python_warnings():
        written = write_taskdef(task, output)
    if as_json:
        say_json("extract/1", {"task": task.name, "path": str(written)})
    else:
        say(str(written))
