"""Draw the pictures of docs/explanation.md from real runs, and the hops of docs/architecture.md.

A run is drawn by the code that draws the page of `perago dev`, without the ids of commits: the
pictures change only when another history comes out of a run. The hops are the rows of the table on
the page, which a test compares with a traced attempt. A test keeps the files equal.
"""

import asyncio
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.app.page.commit_graph import branch_graph
from perago.testing import Fault, PeragoEnvironment, crash, foreign_commit, zombie
from perago.testing.story_views import repository_of

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
STYLE = ROOT / "src" / "perago" / "app" / "page" / "page.css"
NAMESPACE = "{}://www.w3.org/2000/svg".format("http")  # a name that nobody fetches
SCENES: Mapping[str, tuple[str, Fault | None]] = {
    "settled-calm": ("settled", None),
    "head-parent-crash": ("head-parent", crash(after="merge")),
    "settled-crash": ("settled", crash(after="merge")),
    "settled-zombie": ("settled", zombie()),
    "head-parent-zombie": ("head-parent", zombie(after="merge")),
    "head-parent-foreign": ("head-parent", foreign_commit(after="stage")),
    "settled-foreign": ("settled", foreign_commit(after="stage")),
}


HOPS = re.compile(r"^\| (\d+) \| `(app/(\w+)/\w+\.py)` \| ([^|;]*)", re.MULTILINE)
# One column for each folder, so that the picture shows how often an attempt changes the folder.
COLUMNS = {"worker": 10, "fence": 130, "attempt": 250}
ROW_HEIGHT = 34


class Nothing(BaseModel):
    """No parameters, no result."""


@task(
    name="clean",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="data"),
    controls=TaskControls(retry=RetryPolicy(count=1)),
)
def clean(workspace: Path, params: Nothing) -> Nothing:
    """Write one file."""
    (workspace / "out.txt").write_text("out")
    return params


async def picture(policy: str, fault: Fault | None) -> str:
    """Run the task through one fault and draw what is left in the repository."""
    with PeragoEnvironment(policy=policy) as env:
        repository = await env.repository("repo", {"data/in.txt": "in"})
        env.plan(*([] if fault is None else [fault]))
        await env.run(clean, repository)
        story = await env.story()
    (told,) = story.repositories
    rules = re.findall(r"^\.graph.*$", STYLE.read_text(encoding="utf-8"), re.MULTILINE)
    style = "\n".join(["svg { font-family: sans-serif; background: #fff; }", *rules])
    head = f'<svg xmlns="{NAMESPACE}" aria-label="{policy}" class="graph"'
    drawn = branch_graph(repository_of(told, story)).svg.replace('<svg class="graph"', head, 1)
    return (
        drawn.replace(">", f">\n<style>\n{style}\n</style>\n", 1).replace("</g>", "</g>\n") + "\n"
    )


def hops_picture() -> str:
    """Draw the hops of one attempt from the table on the page, one below the other."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = HOPS.findall(page.partition("\n## The way of one attempt\n")[2].partition("\n## ")[0])
    size = f'width="980" height="{ROW_HEIGHT * len(rows) + 10}"'
    label = "The files that one attempt enters, in order"
    drawn = [f'<svg xmlns="{NAMESPACE}" {size} font-family="sans-serif" aria-label="{label}">']
    drawn.append('<rect width="100%" height="100%" fill="#fff"/>')
    points = [
        f"{COLUMNS[folder] + 12},{ROW_HEIGHT * row + 22}"
        for row, (_, _, folder, _) in enumerate(rows)
    ]
    drawn.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#4a6fa5"/>')
    for point, (number, file, _, text) in zip(points, rows, strict=True):
        x, y = map(int, point.split(","))
        drawn.append(f'<circle cx="{x}" cy="{y}" r="11" fill="#4a6fa5"/>')
        middle = f'y="{y + 4}" font-size="12"'
        drawn.append(f'<text x="{x}" {middle} text-anchor="middle" fill="#fff">{number}</text>')
        drawn.append(f'<text x="{x + 18}" {middle} font-weight="bold">{file}</text>')
        said = escape(text.strip().replace("`", ""))
        drawn.append(f'<text x="510" {middle} fill="#444">{said}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    runs = {
        f"{name}.svg": asyncio.run(picture(policy, fault))
        for name, (policy, fault) in SCENES.items()
    }
    return {**runs, "hops.svg": hops_picture()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")
