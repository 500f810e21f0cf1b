"""`perago dev` on a terminal: the run in a process of its own, drawn while it goes on.

A process of its own, so that changed modules are loaded anew. It prints one JSON document a line:
what it knows so far, and in the end everything. `drawn` makes a picture of a document.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from perago.app.command_line.reporting import note_lines, say
from perago.domain.text import plain, plain_lines
from perago.testing.definitions import as_list, as_object

SCHEMA = "perago.dev/1"
Seen = Callable[[Mapping[str, object]], None]


def tell(document: Mapping[str, object], *, complete: bool) -> None:
    """What that process does: print a document as a line."""
    say(json.dumps({"schema": SCHEMA, **document, "complete": complete}))


def run_aside(arguments: Sequence[str], seen: Seen) -> None:
    """Run `perago ARGUMENTS` and hand on each document; what went wrong is one as well."""
    command = [sys.executable, "-m", "perago", *arguments]
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
            document = _document(line)
            complete = bool(document.get("complete")) or complete
            if document:
                seen(document)
            else:
                other.append(line)
        complaints.seek(0)
        said = complaints.read()
    if not complete:
        note_lines(said.rstrip())
        seen({"title": "perago dev", "error": said or "".join(other), "complete": True})


def _document(line: str) -> Mapping[str, object]:
    try:
        found = as_object(cast("object", json.loads(line)))
    except ValueError:
        return {}
    return found if "scenes" in found else {}


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
def live_view(console: Console) -> Generator[Seen]:
    """What draws each document in place of the one before, for the block."""
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        yield lambda document: live.update(drawn(document), refresh=True)


def drawn(document: Mapping[str, object]) -> RenderableType:
    """A document as something that a terminal shows."""
    if document.get("error"):
        return Panel(Text(plain_lines(document["error"]), style="red"), title="perago dev")
    scenes = [as_object(scene) for scene in as_list(document.get("scenes"))]
    return Group(*(_scene(scene) for scene in scenes))


def _scene(scene: Mapping[str, object]) -> RenderableType:
    story = as_object(scene.get("story"))
    status = plain(scene.get("status", ""))
    workflows = map(as_object, as_list(story.get("workflows")))
    parts: list[RenderableType] = [_rows(workflow) for workflow in workflows]
    parts += [_attempt(as_object(attempt)) for attempt in as_list(story.get("attempts"))]
    for repository in map(as_object, as_list(story.get("repositories"))):
        parts += _branches(repository)
    parts += [Text(plain(broken), style="bold red") for broken in as_list(scene.get("broken"))]
    title = Text.assemble(plain(scene.get("title", "")), " ", (status, STYLES.get(status, "")), " ")
    return Panel(Group(*parts), title=title, subtitle=Text(f"policy {plain(scene.get('policy'))}"))


def _rows(workflow: Mapping[str, object]) -> Text:
    """The tasks of a workflow in a line, each in the colour of its state."""
    line = Text()
    for row in map(as_object, as_list(workflow.get("rows"))):
        status = plain(row.get("status", ""))
        line.append(f" {plain(row.get('reference'))} ", style=f"reverse {STYLES.get(status, '')}")
        line.append(f" {status}  ")
    return line


def _attempt(attempt: Mapping[str, object]) -> Tree:
    status = plain(attempt.get("status", ""))
    head = Text.assemble(
        (f"{plain(attempt.get('reference'))} attempt {attempt.get('number')} ", "bold"),
        (status, STYLES.get(status, "")),
        f" {plain(attempt.get('recorded', ''))}",
    )
    tree = Tree(head)
    events = [as_object(event) for event in as_list(attempt.get("events"))]
    if len(events) > EVENTS_MAX:
        tree.add(Text(f"{len(events) - EVENTS_MAX} more before", style="dim"))
    for event in events[-EVENTS_MAX:]:
        style = STYLES.get(str(event.get("kind", "")), "")
        tree.add(Text(f"{event.get('seconds')}s {plain(event.get('text', ''))}", style=style))
    return tree


def _branches(repository: Mapping[str, object]) -> Iterator[RenderableType]:
    """The commits of each branch that adds some, newest first."""
    seen: set[str] = set()
    branches = [as_object(branch) for branch in as_list(repository.get("branches"))]
    for branch in sorted(branches, key=lambda found: found.get("name") != "main"):
        commits = [as_object(commit) for commit in as_list(branch.get("commits"))]
        news = [commit for commit in commits if str(commit.get("id")) not in seen]
        seen |= {str(commit.get("id")) for commit in commits}
        if not news:
            continue
        yield Text(plain(branch.get("name")), style="italic", no_wrap=True, overflow="ellipsis")
        table = Table(box=None, show_header=False)
        for commit in news[:COMMITS_MAX]:
            kind = plain(commit.get("kind", ""))
            said = plain(commit.get("task") or commit.get("message") or "")
            attempt = commit.get("attempt")
            decided = any(str(t).startswith("perago-settled-") for t in as_list(commit.get("tags")))
            table.add_row(
                Text(str(commit.get("id"))[:SHORT], style="dim"),
                Text(kind, style=STYLES.get(kind, "")),
                Text(f"{said} #{attempt}" if attempt else said),
                Text("decided" if decided else "", style="blue"),
            )
        yield table
