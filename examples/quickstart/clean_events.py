"""A task: keeps the rows of `raw/events.csv` whose amount is a number."""

import csv
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TimeoutPolicy, WorkspaceSpec, require_file, task


class Params(BaseModel):
    """How many rows may be dropped before the task refuses."""

    dropped_max: int = 10


class Counted(BaseModel):
    """What the task did."""

    kept: int
    dropped: int


@task(
    name="quickstart.clean",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="sales",
        pre=[require_file("raw/events.csv")],
        post=[require_file("clean/events.csv")],
    ),
    controls=TaskControls(
        retry=RetryPolicy(count=3, delay_seconds=0), timeout=TimeoutPolicy(response_seconds=30)
    ),
)
def clean(workspace: Path, params: Params) -> Counted:
    """Read, filter, write; the workspace is an ordinary directory."""
    with (workspace / "raw/events.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    kept = [row for row in rows if row["amount"].isdigit()]
    dropped = len(rows) - len(kept)
    if dropped > params.dropped_max:
        raise ValueError(f"{dropped} rows would be dropped, at most {params.dropped_max} may be")
    target = workspace / "clean/events.csv"
    target.parent.mkdir(exist_ok=True)
    with target.open("w", newline="") as written:
        writer = csv.DictWriter(written, ["day", "amount"])
        writer.writeheader()
        writer.writerows(kept)
    print(f"kept {len(kept)} of {len(rows)} rows")
    return Counted(kept=len(kept), dropped=dropped)
