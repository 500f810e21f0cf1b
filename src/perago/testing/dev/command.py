"""`perago dev`: run a workflow file here, with faults from the command line, and show it.

`parse_fault` reads `crash:before=merge` or `zombie:task=clean,until=accepted`. `dev` runs the
scenes in a process of their own and shows them on a page, on the terminal, or as JSON.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.console import Console

from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import (
    FAILED,
    CommandUsageError,
    JsonOption,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.command_line.serve_page import serve_until_interrupted
from perago.app.page.model import PageView
from perago.app.page.page_server import Shown
from perago.domain.errors import PeragoError
from perago.domain.policy import PolicyName
from perago.testing.definitions import as_list, as_object
from perago.testing.dev.live_view import live_view, run_aside, tell
from perago.testing.dev.scenes import DevRequest, run_scenes
from perago.testing.dev.story_page import page_of
from perago.testing.faults import (
    Fault,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    unavailable,
    zombie,
)
from perago.testing.trial.captured_body import read_tree
from perago.testing.trial.command import read_json_option

MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {
        "crash": crash,
        "arrive-late": arrive_late,
        "drain": drain,
        "expire-lease": expire_lease,
        "foreign-commit": foreign_commit,
        "lose-answer": lose_answer,
        "lose-request": lose_request,
        "unavailable": unavailable,
        "zombie": zombie,
    }
)
NUMBERS = frozenset({"nth", "attempt"})


def parse_fault(text: str) -> Fault:
    """The fault that a text names, or a ValueError that says what was expected."""
    name, _, rest = text.partition(":")
    maker = MAKERS.get(name)
    if maker is None:
        raise ValueError(f"no fault is called {name!r}; expected one of {', '.join(MAKERS)}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{text}: expected key=value, found {part!r}")
        options[key] = int(value) if key in NUMBERS else value
    try:
        return maker(**options)
    except TypeError as error:
        raise ValueError(f"{text}: {error}") from error


SETTLED, HEAD_PARENT = "settled", "head-parent"


@reports_errors_by_class
def dev(  # noqa: PLR0913 - one parameter an option
    workflow: Annotated[Path, typer.Argument(metavar="WORKFLOW.json", help="The workflow.")],
    targets: Annotated[list[str], typer.Argument(metavar="MODULE", help="Task modules.")],
    *,
    files: Annotated[
        Path | None, typer.Option(help="Directory with the repository's first files.")
    ] = None,
    branch: Annotated[
        list[str] | None,
        typer.Option(help="Another branch; the workflow input has its workspace under its name."),
    ] = None,
    given: Annotated[str, typer.Option("--input", help="Workflow input: JSON or a file.")] = "{}",
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault, for example crash:before=merge,task=clean.")
    ] = None,
    policy: Annotated[PolicyName, typer.Option(help="Publication policy.")] = "settled",
    compare: Annotated[
        bool, typer.Option("--compare", help="Show head-parent and settled side by side.")
    ] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Run again on every change.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0: any free port.")] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Run once, print, and exit.")] = False,
    as_json: JsonOption = False,
    follow: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Run a workflow on servers in memory; show it on the terminal and on a page."""
    if not workflow.is_file():  # otherwise a page would be served of which nothing comes
        raise CommandUsageError(f"{workflow} is not a file; perago workflow new MODULE writes one")
    if once or as_json or follow:
        chosen = [SETTLED, HEAD_PARENT] if compare else [policy]
        request = _request(workflow, targets, files, given, fault or [], branch or [])
        document = _run(f"perago dev {workflow.name}", request, chosen, follow=follow)
        if follow:
            tell(document, complete=True)
            return
        _print(document, as_json=as_json)
        scenes = [as_object(scene) for scene in as_list(document["scenes"])]
        if any(scene["broken"] or scene["status"] != "COMPLETED" for scene in scenes):
            raise typer.Exit(FAILED)
        return
    watched = partial(_watched, [workflow, *([files] if files else [])], targets)
    _serve([*sys.argv[1:], "--follow"], watched, port, reload=reload, open_page=open_page)


def _request(
    workflow: Path,
    targets: Sequence[str],
    files: Path | None,
    given: str,
    faults: Sequence[str],
    branches: Sequence[str],
) -> DevRequest:
    if files is not None and not files.is_dir():
        raise CommandUsageError(f"--files: {files} is not a directory")
    try:
        return DevRequest(
            definitions=_definitions(workflow),
            tasks=load_tasks(targets),
            files={} if files is None else read_tree(files),
            workflow_input=read_json_option("--input", given),
            faults=[parse_fault(text) for text in faults],
            branches=branches,
        )
    except PeragoError:
        raise  # it has said what is wrong with a module, code and lines included
    except ValueError as error:
        raise CommandUsageError(str(error)) from error


def _definitions(workflow: Path) -> Sequence[Mapping[str, object]]:
    """The workflow, and behind it those of the branches of its forks."""
    found: object = json.loads(workflow.read_text(encoding="utf-8"))
    definitions = [as_object(each) for each in as_list(found) or [found]]
    for each in definitions:
        if not each.get("name") or not as_list(each.get("tasks")):
            text = (
                "expected a workflow definition, an object with name and tasks, or a list of them"
            )
            raise CommandUsageError(f"{workflow}: {text}; perago workflow new MODULE writes one")
    return definitions


def _run(
    title: str, request: DevRequest, policies: Sequence[str], *, follow: bool
) -> dict[str, object]:
    scenes: list[dict[str, object]] = []

    def seen(scene: dict[str, object]) -> None:
        tell({"title": title, "scenes": [*scenes, scene]}, complete=False)

    try:
        for name in policies:
            scene = asyncio.run(run_scenes(request, name, seen if follow else None))
            scenes.append(scene)
    except PeragoError:
        raise
    except ValueError as error:
        raise CommandUsageError(str(error)) from error
    return {"title": title, "scenes": scenes}


def _print(document: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        say_json("dev/1", document)
        return
    for scene in map(as_object, as_list(document.get("scenes"))):
        say(f"policy {scene['policy']}")
        for line in [*as_list(scene["lines"]), *as_list(scene["broken"])]:
            say(f"  {line}")


def _watched(files: Sequence[Path], targets: Sequence[str]) -> dict[Path, int]:
    """When each file that a run depends on was changed: what was named, and Python beside it."""
    found = [spec for spec in map(find_spec, targets) if spec and spec.origin]
    folders = [Path(str(spec.origin)).parent for spec in found]
    named = [path for given in files for path in ([given] if given.is_file() else given.rglob("*"))]
    python = [path for folder in folders for path in folder.glob("*.py")]
    return {path: path.stat().st_mtime_ns for path in [*named, *python] if path.is_file()}


def _serve(
    arguments: Sequence[str],
    watched: Callable[[], dict[Path, int]],
    port: int,
    *,
    reload: bool,
    open_page: bool,
) -> None:
    """Show the newest run, also while it goes on, until interrupted."""
    shown = Shown(PageView("perago dev"))
    console = Console()
    stamps: dict[Path, int] = {}
    with live_view(console) if console.is_terminal else nullcontext(_print_complete) as draw:

        def seen(document: Mapping[str, object]) -> None:
            live = reload or not document.get("complete")
            shown.update(page_of(document, live=live))
            draw(document)

        def look() -> None:
            nonlocal stamps
            if stamps and not reload:  # it has run; without --reload a change starts no other run
                return
            if (now := watched()) != stamps:
                stamps = now
                run_aside(arguments, seen)

        serve_until_interrupted(shown, port, look, open_page=open_page)


def _print_complete(document: Mapping[str, object]) -> None:
    """For output that is no terminal: the story, when it is told to its end."""
    if document.get("complete"):
        _print(document, as_json=False)
