"""`perago dev`: run a workflow file here, with faults from the command line, and show it.

`parse_fault` reads `crash:before=merge` or `zombie:task=clean,until=accepted`. `run_scene` runs the
workflow once, on an environment of its own. `dev` does that in another process, so that changed
modules are loaded anew, and shows what that one tells on a page, on the terminal, or as JSON. The
other process prints one report a line: what it knows so far, and in the end everything.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.live import Live
from rich.text import Text

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import reference_of
from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import (
    FAILED,
    CommandUsageError,
    JsonOption,
    note_lines,
    say,
    say_json,
)
from perago.app.command_line.watch import serve_until_interrupted
from perago.app.page.model import PageView, SceneView, page_document
from perago.app.page.page_server import Shown
from perago.domain.attempt import AttemptStatus, as_mapping
from perago.domain.errors import PeragoError
from perago.domain.policy import PolicyName
from perago.domain.text import plain
from perago.testing import faults
from perago.testing.definitions import as_list
from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Fault
from perago.testing.file_trees import read_tree
from perago.testing.story import Story
from perago.testing.story_views import scene_of, story_document, story_lines
from perago.testing.trial_command import read_json_option

MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {
        "crash": faults.crash,
        "arrive-late": faults.arrive_late,
        "drain": faults.drain,
        "expire-lease": faults.expire_lease,
        "foreign-commit": faults.foreign_commit,
        "lose-answer": faults.lose_answer,
        "lose-request": faults.lose_request,
        "outage": faults.outage,
        "unavailable": faults.unavailable,
        "zombie": faults.zombie,
    }
)
NUMBERS: Mapping[str, type[float]] = MappingProxyType(
    {"nth": int, "attempt": int, "seconds": float}
)
SEEN_AGAIN_SECONDS = 0.05  # 20 pictures a second: more are not seen, and each is a line of JSON
# The words of a story that have a colour on a terminal.
COLOURS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "green": ("COMPLETED", "published"),
        "red": ("FAILED", "TIMED_OUT", "DIED"),
        "yellow": ("HANDED_BACK", "abandoned"),
        "cyan": ("RUNNING", "IN_PROGRESS"),
        "blue": ("staged",),
        "magenta": ("foreign",),
        "bold red": ("!!",),
    }
)


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
        options[key] = NUMBERS[key](value) if key in NUMBERS else value
    try:
        return maker(**options)
    except TypeError as error:
        raise ValueError(f"{text}: {error}") from error


@dataclass(frozen=True, slots=True)
class DevRequest:
    """What is to be run."""

    definitions: Sequence[Mapping[str, object]]
    tasks: Sequence[TaskDefinition]
    files: Mapping[str, bytes | str]
    workflow_input: Mapping[str, object]
    faults: Sequence[Fault] = field(default_factory=tuple)
    branches: Sequence[str] = field(default_factory=tuple)
    repository: str = "dev"
    title: str = ""
    """Of the scene; without one it is the name of the workflow."""


@dataclass(frozen=True, slots=True)
class DevRun:
    """One run, to its end or so far, as it is shown and as it was; `files` are those of main."""

    scene: SceneView
    story: Story
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def document(self) -> dict[str, object]:
        """What `--json` prints."""
        return {
            "title": self.scene.title,
            "policy": self.scene.policy,
            "status": self.scene.status,
            "broken": list(self.scene.problems),
            "story": story_document(self.story),
            "lines": list(story_lines(self.story)),
        }

    def lines(self) -> Iterator[str]:
        """What a person reads who has no page."""
        yield f"policy {self.scene.policy}"
        for line in (*story_lines(self.story), *self.scene.problems):
            yield f"  {line}"


async def run_scene(
    request: DevRequest, policy: str, seen: Callable[[DevRun], None] | None = None
) -> DevRun:
    """One run; while it goes on, `seen` gets what the attempts did so far."""
    title = request.title or str(request.definitions[0].get("name", ""))
    with PeragoEnvironment(policy=policy) as env:
        if seen is not None:

            def look() -> None:
                story = Story((), env.attempts, ())
                seen(DevRun(scene_of(story, title, policy), story))

            env.watch(_glances(look))
        repository = await env.repository(request.repository, dict(request.files))
        await env.register(*request.tasks)
        env.plan(*request.faults)
        for branch in request.branches:
            await repository.create_branch(branch)
        given: dict[str, object] = {
            # A fork needs a branch for each side, and their commits are known only here.
            **{branch: await repository.workspace(branch) for branch in request.branches},
            "workspace": await repository.workspace(),
            # Where `sequence` looks for them; a task without required parameters needs no more.
            "params": {reference_of(task.name): dict[str, object]() for task in request.tasks},
            **request.workflow_input,
        }
        run = await env.start(request.definitions, given)
        await env.until_idle()
        story = await env.story()
        pending = [
            f"planned, but its moment never came: {type(fault).__name__} {fault.moment}"
            for fault in env.pending_faults
        ]
        broken = [*await env.check_invariants(), *pending, *_undeclared(story, request.tasks)]
        status = str(await run.status())
        scene = scene_of(story, title, policy, status=status, problems=broken)
        return DevRun(scene, story, await repository.files())


def _undeclared(story: Story, tasks: Sequence[TaskDefinition]) -> list[str]:
    """Tasks that stay scheduled for ever because no module that was given declares them."""
    known = {task.name for task in tasks}
    waiting = {
        row.snapshot.task_type
        for row in story.rows
        if row.snapshot.status is AttemptStatus.SCHEDULED and row.snapshot.task_type not in known
    }
    declared = ", ".join(sorted(known))
    return [
        f"the workflow waits for the task {name}, and the modules declare {declared}"
        for name in sorted(waiting)
    ]


def _glances(look: Callable[[], None]) -> Callable[[], None]:
    """Look, but at most 20 times a second."""
    looked_at = 0.0

    def glance() -> None:
        nonlocal looked_at
        now = time.monotonic()
        if now - looked_at >= SEEN_AGAIN_SECONDS:
            looked_at = now
            look()

    return glance


@dataclass(frozen=True, slots=True)
class RunReport:
    """What is known of a run so far, and at its end also its story as lines."""

    page: PageView
    lines: tuple[str, ...] = ()


_REPORT = TypeAdapter(RunReport)


def tell(title: str, runs: Sequence[DevRun], *, live: bool = True) -> None:
    """What the other process does: print what it knows as a line."""
    page = PageView(title, tuple(each.scene for each in runs), live=live)
    lines = [line for each in runs for line in each.lines()]
    say(json.dumps({"page": page_document(page), "lines": lines}))


def run_aside(command: Sequence[str], hear: Callable[[RunReport], None]) -> None:
    """Run `perago dev` and hand on what it tells; what went wrong is a page as well."""
    complete = False
    other: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(  # noqa: S603 - ours
            command, stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as process,
    ):
        assert process.stdout is not None, "it was asked for"
        for line in process.stdout:
            try:
                # The parser of pydantic refuses half a character, which a task may well print.
                report = _REPORT.validate_python(json.loads(line))
            except ValueError:
                other.append(line)
                continue
            complete = complete or not report.page.live
            hear(report)
        complaints.seek(0)
        said = complaints.read()
    if not complete:
        note_lines(said.rstrip())
        hear(RunReport(PageView("perago dev", live=False, error=said or "".join(other))))


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
        chosen = ["settled", "head-parent"] if compare else [policy]
        request = _request(workflow, targets, files, given, fault or [], branch or [])
        title = f"perago dev {workflow.name}"
        runs = _play(title, request, chosen, follow=follow)
        if follow:
            tell(title, runs, live=False)
            return
        if as_json:
            say_json("dev/1", {"title": title, "scenes": [each.document() for each in runs]})
        else:
            _print(line for each in runs for line in each.lines())
        if any(each.scene.problems or each.scene.status != "COMPLETED" for each in runs):
            raise typer.Exit(FAILED)
        return
    watched = partial(_watched, [workflow, *([files] if files else [])], targets)
    command = [sys.executable, "-m", "perago", *sys.argv[1:], "--follow"]
    _serve(command, watched, port, reload=reload, open_page=open_page)


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
            workflow_input=read_json_option("--input", given, of_workflow=True),
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
    definitions = [as_mapping(each) for each in as_list(found) or [found]]
    for each in definitions:
        if not each.get("name") or not as_list(each.get("tasks")):
            text = (
                "expected a workflow definition, an object with name and tasks, or a list of them"
            )
            raise CommandUsageError(f"{workflow}: {text}; perago workflow new MODULE writes one")
    return definitions


def _play(
    title: str, request: DevRequest, policies: Sequence[str], *, follow: bool
) -> Sequence[DevRun]:
    runs: list[DevRun] = []

    def seen(run: DevRun) -> None:
        tell(title, [*runs, run])

    try:
        for name in policies:
            ended = asyncio.run(run_scene(request, name, seen if follow else None))
            runs.append(ended)
    except PeragoError:
        raise
    except ValueError as error:
        raise CommandUsageError(str(error)) from error
    return runs


@contextmanager
def live_view(console: Console) -> Generator[Callable[[RunReport], None]]:
    """What shows each report in place of the one before, for the block."""
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        yield lambda report: live.update(drawn(report, console.height), refresh=True)


def drawn(report: RunReport, height: int) -> Text:
    """A report on a terminal: of a run that goes on, the newest lines that fit on it."""
    live = report.page.live
    tasks = [  # known of a run that has ended, also of a step that still waits for a person
        "  ".join(f"{task.name} {task.status}" for task in workflow.tasks)
        for scene in report.page.scenes
        for workflow in scene.workflows
    ]
    lines = [*(report.lines[-height:] if live else report.lines), *tasks]
    lines += report.page.error.splitlines()
    cut: Literal["ellipsis", "fold"] = "ellipsis" if live else "fold"
    text = Text("\n".join(map(plain, lines)), no_wrap=live, overflow=cut)
    for colour, words in COLOURS.items():
        text.highlight_words(words, colour)
    return text


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _watched(files: Sequence[Path], targets: Sequence[str]) -> dict[Path, int]:
    """When each file that a run depends on was changed: what was named, and Python beside it."""
    found = [spec for spec in map(find_spec, targets) if spec and spec.origin]
    folders = [Path(str(spec.origin)).parent for spec in found]
    named = [path for given in files for path in ([given] if given.is_file() else given.rglob("*"))]
    python = [path for folder in folders for path in folder.glob("*.py")]
    return {path: path.stat().st_mtime_ns for path in [*named, *python] if path.is_file()}


def _serve(
    command: Sequence[str],
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
    with live_view(console) if console.is_terminal else nullcontext() as draw:

        def hear(report: RunReport) -> None:
            shown.update(replace(report.page, live=reload or report.page.live))
            if draw is not None:
                draw(report)
            elif not report.page.live:  # for output that is no terminal: the story, told to its end
                _print(report.lines)

        def look() -> None:
            nonlocal stamps
            if stamps and not reload:  # it has run; without --reload a change starts no other run
                return
            if (now := watched()) != stamps:
                stamps = now
                run_aside(command, hear)

        serve_until_interrupted(shown, port, look, open_page=open_page)
