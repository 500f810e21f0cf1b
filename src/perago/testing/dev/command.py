"""`perago dev WORKFLOW.json MODULES...`: run a workflow in this process, look at it, change it.

Each run is a process of its own, so that changed modules are really loaded anew; this one serves
the page, watches the files and prints the story.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, cast

import typer

from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import (
    FAILED,
    JsonOption,
    note,
    reports_errors,
    say,
    say_json,
)
from perago.app.command_line.run import read_params
from perago.app.trial.file_tree import read_tree
from perago.domain.authoring_errors import TaskInputError
from perago.testing.dev.fault_text import parse_fault
from perago.testing.dev.page_server import Shown
from perago.testing.dev.serving import serve_until_interrupted
from perago.testing.dev.world import DevRequest, run_world
from perago.testing.json_values import as_list, as_object

SETTLED, HEAD_PARENT = "settled", "head-parent"


@reports_errors
def dev(  # noqa: PLR0913 - one parameter an option
    workflow: Annotated[Path, typer.Argument(metavar="WORKFLOW.json", help="The definition.")],
    targets: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Task modules.")],
    *,
    files: Annotated[
        Path | None, typer.Option(help="Directory with the repository's first files.")
    ] = None,
    given: Annotated[str, typer.Option("--input", help="Workflow input: JSON or a file.")] = "{}",
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault, such as crash:before=merge,task=clean.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Publication policy.")] = SETTLED,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show head-parent and settled side by side.")
    ] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Run again on change.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Run, print, and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow on the embedded environment and show it on a page on loopback."""
    if once or as_json:
        document = _run(workflow, targets, files, given, fault or [], policy, compare=compare)
        _print(document, as_json=as_json)
        scenes = [as_object(scene) for scene in as_list(document["scenes"])]
        if any(scene["broken"] or scene["status"] != "COMPLETED" for scene in scenes):
            raise typer.Exit(FAILED)
        return
    arguments = [*sys.argv[1:], "--json"]
    _serve(arguments, _watched(workflow, targets), port, reload=reload, open_page=open_page)


def _run(  # noqa: PLR0913 - the options of the command
    workflow: Path,
    targets: Sequence[str],
    files: Path | None,
    given: str,
    faults: Sequence[str],
    policy: str,
    *,
    compare: bool,
) -> dict[str, object]:
    try:
        definition = cast("object", json.loads(workflow.read_text(encoding="utf-8")))
        request = DevRequest(
            definition=as_object(definition),
            tasks=load_tasks(targets),
            files={} if files is None else read_tree(files),
            workflow_input=read_params(given),
            faults=[parse_fault(text) for text in faults],
        )
        policies = [SETTLED, HEAD_PARENT] if compare else [policy]
        scenes = [asyncio.run(run_world(request, name)) for name in policies]
    except ValueError as error:
        raise TaskInputError(str(error), code="PRG-I003") from error
    return {"title": f"perago dev {workflow.name}", "scenes": scenes}


def _print(document: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        say_json("dev/1", document)
        return
    for scene in map(as_object, as_list(document.get("scenes"))):
        say(f"policy {scene['policy']}")
        for line in [*as_list(scene["lines"]), *as_list(scene["broken"])]:
            say(f"  {line}")


def _watched(workflow: Path, targets: Sequence[str]) -> list[Path]:
    found = [find_spec(target) for target in targets]
    return [workflow, *(Path(spec.origin) for spec in found if spec and spec.origin)]


def _serve(
    arguments: Sequence[str], watched: Sequence[Path], port: int, *, reload: bool, open_page: bool
) -> None:
    """Show the newest run until interrupted."""
    shown = Shown(_run_aside(arguments))
    _print(shown.document, as_json=False)
    stamps = _stamps(watched)

    def look() -> None:
        nonlocal stamps
        if reload and (now := _stamps(watched)) != stamps:
            stamps = now
            shown.update(_run_aside(arguments))
            _print(shown.document, as_json=False)

    serve_until_interrupted(shown, port, look, open_page=open_page)


def _run_aside(arguments: Sequence[str]) -> Mapping[str, object]:
    """One run in a process of its own; its document, or what it said instead."""
    command = [sys.executable, "-m", "perago", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    try:
        found = as_object(cast("object", json.loads(ran.stdout)))
    except ValueError:
        found = as_object(None)
    if "scenes" in found:
        return found
    note(ran.stderr.rstrip())
    return {"title": "perago dev", "error": ran.stderr or ran.stdout}


def _stamps(watched: Sequence[Path]) -> list[int]:
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in watched]
