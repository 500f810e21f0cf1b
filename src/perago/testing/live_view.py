"""`perago dev` on a terminal: the run in a process of its own, drawn while it goes on.

A process of its own, so that changed modules are loaded anew. It prints one page a line, as JSON:
what it knows so far, and in the end everything. `drawn` makes a picture of a page.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import TypeAdapter
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from perago.app.command_line.reporting import note_lines, say
from perago.app.page import model
from perago.domain.text import plain, plain_lines


@dataclass(frozen=True, slots=True)
class RunReport:
    """What is known of a run so far, and at its end also its story as lines."""

    page: model.PageView
    lines: tuple[str, ...] = ()


_REPORT = TypeAdapter(RunReport)


def tell(page: model.PageView, lines: Iterable[str] = ()) -> None:
    """What that process does: print what it knows as a line."""
    say(json.dumps({"page": model.page_document(page), "lines": list(lines)}))


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
        hear(RunReport(model.PageView("perago dev", live=False, error=said or "".join(other))))


# The newest of each, so that an attempt and a branch fit on a terminal of 24 lines; the page has
# all.
EVENTS_MAX = 12
COMMITS_MAX = 12
SHORT = 8  # digits of a commit id, as in `testing.story`
STYLES = {
    "COMPLETED": "green",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "HANDED_BACK": "yellow",
    "DIED": "red",
    "RUNNING": "cyan",
    "IN_PROGRESS": "cyan",
    "published": "green",
    "staged": "blue",
    "abandoned": "yellow",
    "foreign": "magenta",
    "fault": "bold red",
    "output": "dim",
    "end": "bold",
}


@contextmanager
def live_view(console: Console) -> Generator[Callable[[model.PageView], None]]:
    """What draws each page in place of the one before, for the block."""
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        yield lambda page: live.update(drawn(page), refresh=True)


def drawn(page: model.PageView) -> RenderableType:
    """A page as something that a terminal shows."""
    if page.error:
        return Panel(Text(plain_lines(page.error), style="red"), title="perago dev")
    return Group(*map(_scene, page.scenes))


def _scene(scene: model.SceneView) -> RenderableType:
    parts: list[RenderableType] = [_tasks(workflow) for workflow in scene.workflows]
    parts += map(_attempt, scene.attempts)
    for repository in scene.repositories:
        parts += _branches(repository)
    parts += [Text(plain(problem), style="bold red") for problem in scene.problems]
    title = Text.assemble(plain(scene.title), " ", _status(scene.status), " ")
    return Panel(Group(*parts), title=title, subtitle=Text(f"policy {plain(scene.policy)}"))


def _status(status: str) -> tuple[str, str]:
    return plain(status), STYLES.get(status, "")


def _tasks(workflow: model.WorkflowView) -> Text:
    """The tasks of a workflow in a line, each in the colour of its state."""
    line = Text()
    for task in workflow.tasks:
        status, style = _status(task.status)
        line.append(f" {plain(task.name)} ", style=f"reverse {style}")
        line.append(f" {status}  ")
    return line


def _attempt(attempt: model.AttemptView) -> Tree:
    name = f"{plain(attempt.task)} attempt {attempt.number} "
    tree = Tree(
        Text.assemble((name, "bold"), _status(attempt.status), f" {plain(attempt.came_to)}")
    )
    events = attempt.events or ()
    if len(events) > EVENTS_MAX:
        tree.add(Text(f"{len(events) - EVENTS_MAX} more before", style="dim"))
    for event in events[-EVENTS_MAX:]:
        tree.add(Text(f"{event.at}s {plain(event.text)}", style=STYLES.get(event.kind, "")))
    return tree


def _branches(repository: model.RepositoryView) -> Iterator[RenderableType]:
    """The commits of each branch that adds some, newest first."""
    seen: set[str] = set()
    for branch in sorted(repository.branches, key=lambda found: found.name != "main"):
        news = [commit for commit in branch.commits if commit.id not in seen]
        seen |= {commit.id for commit in branch.commits}
        if not news:
            continue
        yield Text(plain(branch.name), style="italic", no_wrap=True, overflow="ellipsis")
        table = Table(box=None, show_header=False)
        for commit in news[:COMMITS_MAX]:
            table.add_row(
                Text(plain(commit.id)[:SHORT], style="dim"),
                Text(*_status(commit.kind)),
                Text(plain(commit.label or commit.message)),
                Text("decided" if commit.is_decided else "", style="blue"),
            )
        yield table
