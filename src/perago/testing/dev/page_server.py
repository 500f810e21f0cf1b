"""`perago dev` as a web page: the commits as a picture, the story beside them, on loopback only.

`branch_graph` draws main in a row and everything else beside what it stands on. `answer` serves GET
of the page, its files and the document, and refuses foreign host names. Every value is escaped.
"""

import json
import signal
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

from perago.app.command_line.reporting import note
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.testing.definitions import as_list, as_object

# Pixels: between commits, beside main, between rows, of a dot, and the margins.
STEP, ASIDE, ROW, RADIUS, LEFT, TOP = 120, 64, 70, 9, 60, 30
ID_CHARACTERS = 8  # of a commit id, as in `testing.story`
Point = tuple[int, int]


def branch_graph(repository: Mapping[str, object]) -> str:
    """One repository."""
    branches = [as_object(branch) for branch in as_list(repository.get("branches"))]
    points = _points(branches)
    commits = {
        str(commit["id"]): commit for branch in branches for commit in reversed(_commits(branch))
    }
    width = max((x for x, _ in points.values()), default=0) + LEFT + RADIUS
    height = max((y for _, y in points.values()), default=0) + ROW // 2
    body = [*_edges(commits, points), *_dots(commits, points), *_run_labels(branches, points)]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg class="graph" role="img" {size}>{"".join(body)}</svg>'


def _commits(branch: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    return [as_object(commit) for commit in as_list(branch.get("commits"))]


def _points(branches: Sequence[Mapping[str, object]]) -> dict[str, Point]:
    """Main in a row, and what stands beside it in rows below, each commit right of its parents.

    Runs come right below main: the decisions of their tasks have the same commits, which would else
    be drawn in the rows of these. Where nothing was decided on it, a commit is half a step aside.
    """
    runs = _runs(branches)
    rows: dict[str, int] = {}
    wide: set[str] = set()
    parents: dict[str, list[str]] = {}
    for branch in sorted(branches, key=lambda each: (each.get("name") != "main", each not in runs)):
        news = [commit for commit in _commits(branch) if str(commit["id"]) not in rows]
        y = max(rows.values(), default=TOP - ROW) + ROW
        for commit in reversed(news):
            name = str(commit["id"])
            rows[name] = y
            parents[name] = [str(parent) for parent in as_list(commit.get("parents"))]
            if y == TOP or branch in runs:
                wide.add(name)
    across: dict[str, int] = {}
    left = list(rows)
    while left:  # without recursion, because a history is longer than a stack is deep
        name = left[-1]
        known = [parent for parent in parents[name] if parent in rows]
        missing = [parent for parent in known if parent not in across]
        if missing:
            left += missing
            continue
        step = STEP if name in wide else ASIDE
        across[name] = max((across[parent] + step for parent in known), default=LEFT)
        left.pop()
    return {name: (x, rows[name]) for name, x in across.items()}


def _runs(branches: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows of runs: held ones have their branch, a published one is the second parent on main.

    By then its branch is gone, and the decision of finish still leads to its commits.
    """
    main = [commit for each in branches if each.get("name") == "main" for commit in _commits(each)]
    merged = {str(parent) for commit in main for parent in as_list(commit.get("parents"))[1:]}
    return [
        each
        for each in branches
        if str(each.get("name")).startswith(RUN_BRANCH_PREFIX)
        or any(str(commit["id"]) in merged for commit in _commits(each)[:1])
    ]


def _run_labels(
    branches: Sequence[Mapping[str, object]], points: Mapping[str, Point]
) -> Iterator[str]:
    for each in _runs(branches):
        drawn = [points[str(commit["id"])] for commit in _commits(each)]
        lowest = max(y for _, y in drawn)
        if lowest > TOP:
            x = min(x for x, y in drawn if y == lowest)
            held = str(each.get("name")).startswith(RUN_BRANCH_PREFIX)
            said = "run, held" if held else "run, published"
            yield f'<text class="run" x="{x}" y="{lowest + 36}">{said}</text>'


def _edges(
    commits: Mapping[str, Mapping[str, object]], points: Mapping[str, Point]
) -> Iterator[str]:
    for name, commit in commits.items():
        for parent in as_list(commit.get("parents")):
            if str(parent) in points:
                yield _line(points[str(parent)], points[name], "edge")
        staged = str(commit.get("staged", ""))
        if staged in points:
            yield _line(points[staged], points[name], "edge merged")


def _line(start: Point, end: Point, kind: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _dots(
    commits: Mapping[str, Mapping[str, object]], points: Mapping[str, Point]
) -> Iterator[str]:
    for name, commit in commits.items():
        x, y = points[name]
        tags = [str(tag) for tag in as_list(commit.get("tags"))]
        decided = any(tag.startswith("perago-settled-") for tag in tags)
        kind = escape(str(commit.get("kind", "")), quote=True)
        said = str(commit.get("task") or commit.get("message") or "")
        attempt = commit.get("attempt")
        label = f"{said} #{attempt}" if attempt else said
        title = " ".join([name, str(commit.get("kind")), said, *tags])
        mark = f'<circle class="decision" cx="{x}" cy="{y}" r="{RADIUS + 4}"/>' if decided else ""
        yield (
            f'<g class="commit {kind}"><title>{escape(title)}</title>{mark}'
            f'<circle cx="{x}" cy="{y}" r="{RADIUS}"/>'
            f'<text x="{x}" y="{y - 17}">{escape(label[:18])}</text>'
            f'<text class="id" x="{x}" y="{y + 22}">{escape(name[:ID_CHARACTERS])}</text></g>'
        )


LEGEND = ("published", "staged", "abandoned", "foreign", "root")


def page_html(document: Mapping[str, object]) -> str:
    """The whole page."""
    title = escape(str(document.get("title", "perago dev")))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title>"
        '<link rel="stylesheet" href="/page.css"><script src="/page.js" defer></script>'
        f'</head><body><h1>{title}</h1><main id="scenes">{scenes_html(document)}</main>'
        "</body></html>"
    )


def scenes_html(document: Mapping[str, object]) -> str:
    """What the script replaces when something has changed."""
    if document.get("error"):
        return f'<pre class="error">{escape(str(document["error"]))}</pre>'
    scenes = [as_object(scene) for scene in as_list(document.get("scenes"))]
    legend = "".join(f'<span class="key {kind}">{kind}</span>' for kind in LEGEND)
    decided = '<span class="key decided">ring: decided</span>'
    scenes_shown = "".join(_scene(scene) for scene in scenes)
    return f'<p class="legend">{legend}{decided}</p><div class="scenes">{scenes_shown}</div>'


def _scene(scene: Mapping[str, object]) -> str:
    story = as_object(scene.get("story"))
    parts = [*_head(scene)]
    for workflow in as_list(story.get("workflows")):
        parts += _workflow(as_object(workflow))
    for repository in as_list(story.get("repositories")):
        found = as_object(repository)
        parts.append(f"<h3>{escape(str(found.get('name')))}</h3>{branch_graph(found)}")
    for attempt in as_list(story.get("attempts")):
        parts.append(_attempt(as_object(attempt)))
    return f'<section class="scene">{"".join(parts)}</section>'


def _head(scene: Mapping[str, object]) -> Iterator[str]:
    yield f"<h2>{escape(str(scene.get('title', '')))}</h2>"
    yield f'<p class="policy">policy {escape(str(scene.get("policy", "")))}</p>'
    for broken in as_list(scene.get("broken")):
        yield f'<p class="broken">{escape(str(broken))}</p>'


def _workflow(workflow: Mapping[str, object]) -> Iterator[str]:
    status = escape(str(workflow.get("status", "")))
    yield f'<p class="workflow">{escape(str(workflow.get("name")))} <b>{status}</b></p>'
    if workflow.get("reason"):
        yield f'<p class="reason">{escape(str(workflow["reason"]))}</p>'
    cells: list[str] = []
    for row in as_list(workflow.get("rows")):
        found = as_object(row)
        name = escape(str(found.get("reference")))
        ended = escape(str(found.get("status")), quote=True)
        cells.append(f'<li class="{ended}">{name} <small>{ended}</small></li>')
    yield f'<ol class="rows">{"".join(cells)}</ol>'


def _attempt(attempt: Mapping[str, object]) -> str:
    names = ("reference", "number", "worker", "status", "recorded")
    name, number, worker, status, recorded = (escape(str(attempt.get(key, ""))) for key in names)
    lines = "".join(_event(as_object(event)) for event in as_list(attempt.get("events")))
    reason = attempt.get("reason")
    why = f'<p class="reason">{escape(str(reason))}</p>' if reason else ""
    return (
        f"<details open><summary>{name} attempt {number} ({worker}): {status} {recorded}</summary>"
        f'{why}<ol class="events">{lines}</ol></details>'
    )


def _event(event: Mapping[str, object]) -> str:
    kind = escape(str(event.get("kind", "")), quote=True)
    facts = ", ".join(f"{key} {value}" for key, value in as_object(event.get("facts")).items())
    more = f" <small>{escape(facts)}</small>" if facts else ""
    seconds = escape(str(event.get("seconds", "")))
    text = escape(str(event.get("text", "")))
    return f'<li class="{kind}"><time>{seconds}s</time> {text}{more}</li>'


LOOPBACK = "127.0.0.1"  # the page shows files of the run and asks for no password
# A web page elsewhere can have its own name point at 127.0.0.1; its requests carry that name.
HOST_NAMES = (LOOPBACK, "localhost")
HTML, JSON, TEXT = "text/html", "application/json", "text/plain"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(slots=True)
class Shown:
    """What the page shows now; `version` counts."""

    document: Mapping[str, object]
    version: int = 0

    def update(self, document: Mapping[str, object]) -> None:
        """Show something else."""
        self.document, self.version = document, self.version + 1


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer before it is sent."""

    status: HTTPStatus
    kind: str
    body: str


def answer(shown: Shown, path: str, host: str, port: int) -> Answer:
    """What a GET gets; a foreign host name (a rebound DNS name) gets nothing."""
    if host not in {f"{name}:{port}" for name in HOST_NAMES}:
        return Answer(HTTPStatus.MISDIRECTED_REQUEST, TEXT, "this page is served to loopback only")
    parts: dict[str, Callable[[], Answer]] = {
        "/": lambda: Answer(HTTPStatus.OK, HTML, page_html(shown.document)),
        "/scenes.html": lambda: Answer(HTTPStatus.OK, HTML, scenes_html(shown.document)),
        "/story.json": lambda: Answer(HTTPStatus.OK, JSON, json.dumps(shown.document)),
        "/version": lambda: Answer(HTTPStatus.OK, TEXT, str(shown.version)),
        "/page.css": lambda: Answer(HTTPStatus.OK, "text/css", _resource("page.css")),
        "/page.js": lambda: Answer(HTTPStatus.OK, "text/javascript", _resource("page.js")),
    }
    part = parts.get(path)
    return part() if part else Answer(HTTPStatus.NOT_FOUND, TEXT, "there is no such page")


def page_server(shown: Shown, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback, not yet serving; port 0 takes a free one."""

    class PageRequest(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            """Answer; other methods are refused by the base class with 501."""
            host = self.headers.get("Host", "")
            assert isinstance(self.server, ThreadingHTTPServer), "the server made below"
            found = answer(shown, self.path, host, self.server.server_port)
            body = found.body.encode()
            self.send_response(found.status)
            self.send_header("Content-Type", f"{found.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: the terminal shows the story."""

    return ThreadingHTTPServer((LOOPBACK, port), PageRequest)


def _resource(name: str) -> str:
    return (files("perago.testing.dev") / name).read_text(encoding="utf-8")


LOOK_SECONDS = 0.5  # between two looks for changed files; a saved file is shown at once to an eye


def nothing_new() -> None:
    """For what does not change."""


def serve_until_interrupted(
    shown: Shown, port: int, look: Callable[[], None] = nothing_new, *, open_page: bool
) -> None:
    """Serve on loopback; `look` may put something else on the page."""
    # Both are set: who is started in the background of a script inherits an ignored Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    server = page_server(shown, port)
    url = f"http://{LOOPBACK}:{server.server_port}/"
    note(f"{url} (Ctrl-C ends)")
    if open_page:
        webbrowser.open(url)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while True:
            look()
            serving.join(LOOK_SECONDS)
    except KeyboardInterrupt:
        note("stopped")
    finally:
        server.shutdown()
        server.server_close()
