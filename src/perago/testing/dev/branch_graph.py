"""The commits of a repository as an SVG: main in a row, everything else beside what it stands on.

Takes the story's JSON and escapes every value. Knows no colours: classes are styled by the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from perago.testing.json_values import as_list, as_object

STEP, ASIDE, ROW, RADIUS, LEFT, TOP = 120, 64, 70, 9, 60, 30
SHORT = 8
Place = tuple[int, int]


def branch_graph(repository: Mapping[str, object]) -> str:
    """One repository."""
    branches = [as_object(branch) for branch in as_list(repository.get("branches"))]
    places = _places(branches)
    commits = {
        str(commit["id"]): commit for branch in branches for commit in reversed(_commits(branch))
    }
    width = max((x for x, _ in places.values()), default=0) + LEFT + RADIUS
    height = max((y for _, y in places.values()), default=0) + ROW // 2
    body = [*_edges(commits, places), *_dots(commits, places)]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg class="graph" role="img" {size}>{"".join(body)}</svg>'


def _commits(branch: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    return [as_object(commit) for commit in as_list(branch.get("commits"))]


def _places(branches: Sequence[Mapping[str, object]]) -> dict[str, Place]:
    """Main from left to right; what stands on it elsewhere is a row down, half a step aside."""
    places: dict[str, Place] = {}
    ordered = sorted(branches, key=lambda branch: branch.get("name") != "main")
    row = 0
    for branch in ordered:
        news = [c for c in reversed(_commits(branch)) if str(c["id"]) not in places]
        if not news:
            continue
        y = TOP + row * ROW
        row += 1
        for commit in news:
            parents = [str(parent) for parent in as_list(commit.get("parents"))]
            step = STEP if y == TOP else ASIDE
            known = [places[parent][0] + step for parent in parents if parent in places]
            places[str(commit["id"])] = (max(known, default=LEFT), y)
    return places


def _edges(
    commits: Mapping[str, Mapping[str, object]], places: Mapping[str, Place]
) -> Iterator[str]:
    for name, commit in commits.items():
        for parent in as_list(commit.get("parents")):
            if str(parent) in places:
                yield _line(places[str(parent)], places[name], "edge")
        staged = str(commit.get("staged", ""))
        if staged in places:
            yield _line(places[staged], places[name], "edge merged")


def _line(start: Place, end: Place, kind: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _dots(
    commits: Mapping[str, Mapping[str, object]], places: Mapping[str, Place]
) -> Iterator[str]:
    for name, commit in commits.items():
        x, y = places[name]
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
            f'<text class="id" x="{x}" y="{y + 22}">{escape(name[:SHORT])}</text></g>'
        )
