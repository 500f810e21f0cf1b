"""Draw the pictures of docs/explanation.md from real runs on the embedded environment.

The same code that draws the page of `perago dev`, without the ids of commits: the pictures change
only when another history comes out of a run. A test keeps the files equal.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.testing import Fault, PeragoEnvironment, crash, foreign_commit, zombie
from perago.testing.definitions import as_list, as_object
from perago.testing.dev.page_server import branch_graph
from perago.testing.story import story_document

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
STYLE = ROOT / "src" / "perago" / "testing" / "dev" / "page.css"
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
        document = story_document(await env.story())
    (told,) = as_list(document["repositories"])
    rules = re.findall(r"^\.graph.*$", STYLE.read_text(encoding="utf-8"), re.MULTILINE)
    style = "\n".join(["svg { font-family: sans-serif; background: #fff; }", *rules])
    head = f'<svg xmlns="{NAMESPACE}" aria-label="{policy}" class="graph"'
    drawn = branch_graph(as_object(told)).replace('<svg class="graph"', head, 1)
    return (
        drawn.replace(">", f">\n<style>\n{style}\n</style>\n", 1).replace("</g>", "</g>\n") + "\n"
    )


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    return {
        f"{name}.svg": asyncio.run(picture(policy, fault))
        for name, (policy, fault) in SCENES.items()
    }


if __name__ == "__main__":
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")
