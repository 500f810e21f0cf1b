"""The demonstration's tasks: raw events to clean rows to totals to a report.

Plain functions as a team would write them. The aggregate is plain Python: it needs no Java.
"""

import csv
import json
from collections import defaultdict
from pathlib import Path

from pydantic import BaseModel

from perago.app.authoring.guardrail_declaration import require_file
from perago.app.authoring.task_controls import RetryPolicy, TaskControls, TimeoutPolicy
from perago.app.authoring.task_declaration import task
from perago.app.authoring.workspace_spec import WorkspaceSpec

OWNER = "data@example.com"
CONTROLS = TaskControls(
    retry=RetryPolicy(count=3, delay_seconds=5), timeout=TimeoutPolicy(response_seconds=60)
)
RAW_EVENTS = """\
day,shop,amount
2026-01-01,north,10
2026-01-01,south,7
2026-01-01,north,not a number
2026-01-02,north,12
2026-01-02,south,
2026-01-02,south,5
"""


class NoParams(BaseModel):
    """Nothing to choose."""


class Counted(BaseModel):
    """How many rows a task wrote, and how many it left out."""

    rows: int
    dropped: int = 0


@task(
    name="demo.clean",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_file("raw/events.csv")]),
    controls=CONTROLS,
)
def clean(workspace: Path, params: NoParams) -> Counted:
    """Keep the rows whose amount is a number."""
    del params
    with (workspace / "raw/events.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    kept = [row for row in rows if row["amount"].isdigit()]
    _write(workspace / "clean/events.csv", ["day", "shop", "amount"], kept)
    return Counted(rows=len(kept), dropped=len(rows) - len(kept))


@task(
    name="demo.aggregate",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_file("clean/events.csv")]),
    controls=CONTROLS,
)
def aggregate(workspace: Path, params: NoParams) -> Counted:
    """Sum up the amounts of each shop."""
    del params
    totals: dict[str, int] = defaultdict(int)
    with (workspace / "clean/events.csv").open(newline="") as source:
        for row in csv.DictReader(source):
            totals[row["shop"]] += int(row["amount"])
    rows = [{"shop": shop, "total": str(total)} for shop, total in sorted(totals.items())]
    _write(workspace / "totals/shops.csv", ["shop", "total"], rows)
    return Counted(rows=len(rows))


@task(
    name="demo.report",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_file("totals/shops.csv")]),
    controls=CONTROLS,
)
def report(workspace: Path, params: NoParams) -> Counted:
    """Write the totals for people."""
    del params
    with (workspace / "totals/shops.csv").open(newline="") as source:
        totals = {row["shop"]: int(row["total"]) for row in csv.DictReader(source)}
    (workspace / "report.json").write_text(json.dumps(totals, sort_keys=True))
    return Counted(rows=len(totals))


def _write(path: Path, names: list[str], rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as target:
        writer = csv.DictWriter(target, names)
        writer.writeheader()
        writer.writerows(rows)
