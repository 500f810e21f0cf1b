"""The pages of the kit as a new user follows them: every block in order, in an empty directory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import WorkspaceSpec, task
from perago.testing import PeragoEnvironment

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the shell blocks of a page print, in order.
PAGES = {
    "testing.md": (
        'result: {"rows": 1}',
        "5 passed",
        "1 passed",
        "1 passed",
        "the process dies after merge",
    ),
    "how-to/test-retries.md": ("4 passed",),
    "how-to/send-events.md": ("2 passed",),
    "how-to/checkpoints.md": ("1 passed",),
    "how-to/incremental.md": ("1 passed",),
    "spark.md": (),
    "reference/task.md": (),
    "how-to/several-tasks-on-one-branch.md": ("1 passed",),
    "how-to/workflow-as-one-transaction.md": ("orders.json", "4 passed"),
    "how-to/audit-approve-publish.md": ("3 passed",),
    "how-to/choose-servers.md": ("https://lakefs.staging.example.org", "memory:"),
}


@pytest.mark.parametrize(("page", "expected"), PAGES.items())
def test_a_page_works_from_top_to_bottom(
    tmp_path: Path, page: str, expected: tuple[str, ...]
) -> None:
    here = Path(sys.executable).parent
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")}
    environment = {**clean, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONPATH": "."}
    said: list[str] = []
    for language, block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        text = block
        if language == "python":
            name = text.split("\n", 1)[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
            text = f"python {name} > /dev/null"
        ran = subprocess.run(
            ["bash", "-ec", text],  # noqa: S607 - the shell of the page
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said += [ran.stdout] if ran.stdout else []
        assert ran.returncode == 0, text + ran.stdout + ran.stderr
    assert len(said) == len(expected)
    for printed, wanted in zip(said, expected, strict=True):
        assert wanted in printed


class Nothing(BaseModel):
    """The task needs no params and has no result."""


@task(name="orders.clean", owner_email="you@example.com", workspace=WorkspaceSpec(prefix="orders"))
def clean(workspace: Path, params: Nothing) -> Nothing:
    (workspace / "clean.csv").write_text("2")
    return params


async def test_the_workflow_of_the_page_of_built_in_tasks_publishes() -> None:
    page = (DOCS / "reference/built-in-tasks.md").read_text(encoding="utf-8")
    (definition,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with PeragoEnvironment() as env:
        repository = await env.repository("shop", {"orders/raw.csv": "x"})
        await env.register(clean)
        run = await env.start(json.loads(definition), {"repository": repository.name})
        await env.until_idle()
        await env.assert_completed(run)
        assert await repository.text("orders/clean.csv") == "2"
