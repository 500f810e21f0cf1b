"""Three tasks: Spark cleans raw events and adds them up, a plain task writes the report."""

import json
from pathlib import Path

from pydantic import BaseModel

from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    require_file,
    require_glob,
    task,
)

CONTROLS = TaskControls(
    retry=RetryPolicy(count=3, delay_seconds=0), timeout=TimeoutPolicy(response_seconds=60)
)


class NoParams(BaseModel):
    """Nothing to choose."""


class Counted(BaseModel):
    """How many rows a task wrote, and how many it left out."""

    rows: int
    dropped: int = 0


@task(
    name="spark.clean",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="sales",
        pre=[require_glob("raw/*.csv")],
        post=[require_glob("clean/**/*.parquet")],
    ),
    controls=CONTROLS,
)
def clean(workspace: SparkWorkspace, params: NoParams) -> Counted:
    """Keep the rows whose amount is a number, one directory a day."""
    del params
    raw = workspace.read.option("header", "true").csv("raw")
    numbers = raw.selectExpr("day", "shop", "try_cast(amount as int) as amount")
    kept = numbers.where("amount is not null")
    workspace.write(kept, "clean", partition_by=["day"])
    rows = kept.count()
    return Counted(rows=rows, dropped=raw.count() - rows)


@task(
    name="spark.total",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="sales", pre=[require_glob("clean/**/*.parquet")]),
    controls=CONTROLS,
)
def total(workspace: SparkWorkspace, params: NoParams) -> Counted:
    """Add up the amounts of each shop."""
    del params
    totals = workspace.table("clean").groupBy("shop").sum("amount").toDF("shop", "total")
    workspace.write(totals.coalesce(1), "totals", format="json")
    return Counted(rows=totals.count())


@task(
    name="spark.report",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="sales", pre=[require_glob("totals/*.json")], post=[require_file("report.json")]
    ),
    controls=CONTROLS,
)
def report(workspace: Path, params: NoParams) -> Counted:
    """Read the very tables that Spark wrote, as files."""
    del params
    lines = [
        json.loads(line)
        for path in (workspace / "totals").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    totals = {line["shop"]: line["total"] for line in lines}
    (workspace / "report.json").write_text(json.dumps(totals, sort_keys=True))
    return Counted(rows=len(totals))
