"""The page as HTML: workflows, attempts with their phases and lines, branch graphs, side by side.

Every value is escaped: task output is hostile input. Nothing is loaded from elsewhere.
"""

from collections.abc import Iterator, Mapping
from html import escape

from perago.testing.dev.branch_graph import branch_graph
from perago.testing.json_values import as_list, as_object

LEGEND = ("published", "staged", "abandoned", "foreign", "root")


def page_html(document: Mapping[str, object]) -> str:
    """The whole page."""
    title = escape(str(document.get("title", "perago dev")))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title>"
        '<link rel="stylesheet" href="/page.css"><script src="/page.js" defer></script>'
        f'</head><body><h1>{title}</h1><main id="worlds">{worlds_html(document)}</main>'
        "</body></html>"
    )


def worlds_html(document: Mapping[str, object]) -> str:
    """What the script replaces when something has changed."""
    if document.get("error"):
        return f'<pre class="error">{escape(str(document["error"]))}</pre>'
    scenes = [as_object(scene) for scene in as_list(document.get("scenes"))]
    legend = "".join(f'<span class="key {kind}">{kind}</span>' for kind in LEGEND)
    decided = '<span class="key decided">ring: decided</span>'
    told = "".join(_scene(scene) for scene in scenes)
    return f'<p class="legend">{legend}{decided}</p><div class="scenes">{told}</div>'


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
