"""The tasks of `perago demo`: raw events to clean rows to totals to a report.

Functions as a team would write them. The aggregate exists twice under one name: on Spark, and in
plain Python for machines without it; both write a table that `report` reads. `demo_session` starts
a small Spark.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from perago.adapters.spark.jars import check_versions, read_facts
from perago.adapters.spark.session import SparkConfiguration, process_session, stop_session
from perago.app.authoring.guardrails import require_file, require_glob
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import RetryPolicy, TaskControls, TimeoutPolicy
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import SparkEnvironmentError
from perago.ports.workspace import SparkWorkspace

OWNER = "data@example.com"
# More retries than a scene has faults of one task. The time is virtual, so that a pause and a lost
# lease cost the reader nothing.
CONTROLS = TaskControls(
    retry=RetryPolicy(count=3, delay_seconds=5), timeout=TimeoutPolicy(response_seconds=60)
)
CLEAN_ROWS = "day string, shop string, amount int"
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


CLEANED = WorkspaceSpec(
    prefix="sales",
    pre=[require_file("clean/events.csv")],
    post=[require_glob("totals/*.csv")],
)


@task(name="demo.aggregate", owner_email=OWNER, workspace=CLEANED, controls=CONTROLS)
def aggregate_on_spark(workspace: SparkWorkspace, params: NoParams) -> Counted:
    """Sum up the amounts of each shop; rows go from lakeFS to lakeFS, not through the worker."""
    del params
    reader = workspace.read.schema(CLEAN_ROWS).option("header", "true")
    events = reader.csv("clean/events.csv")
    totals = events.groupBy("shop").sum("amount").toDF("shop", "total")
    workspace.write(totals.selectExpr("shop", "string(total)").coalesce(1), "totals", format="csv")
    return Counted(rows=totals.count())


@task(name="demo.aggregate", owner_email=OWNER, workspace=CLEANED, controls=CONTROLS)
def aggregate(workspace: Path, params: NoParams) -> Counted:
    """Sum up the amounts of each shop."""
    del params
    totals: dict[str, int] = defaultdict(int)
    with (workspace / "clean/events.csv").open(newline="") as source:
        for row in csv.DictReader(source):
            totals[row["shop"]] += int(row["amount"])
    path = workspace / "totals/part-0.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{shop},{total}\n" for shop, total in sorted(totals.items())))
    return Counted(rows=len(totals))


@task(
    name="demo.report",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_glob("totals/*.csv")]),
    controls=CONTROLS,
)
def report(workspace: Path, params: NoParams) -> Counted:
    """Write the totals for people."""
    del params
    parts = sorted((workspace / "totals").glob("*.csv"))
    lines = [line.split(",") for part in parts for line in part.read_text().splitlines()]
    totals = {shop: int(total) for shop, total in lines}
    (workspace / "report.json").write_text(json.dumps(totals, sort_keys=True))
    return Counted(rows=len(totals))


def _write(path: Path, names: list[str], rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as target:
        writer = csv.DictWriter(target, names)
        writer.writeheader()
        writer.writerows(rows)


# One partition, because the table has a few rows; loopback, because the demo must open no port.
QUIET = {
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def why_no_spark() -> SparkEnvironmentError | None:
    """What is missing here, or None."""
    try:
        check_versions(read_facts(), [], needs_s3a=False)
    except SparkEnvironmentError as problem:
        return problem
    return None


@contextmanager
def demo_session() -> Generator[None]:
    """The session that bodies of this process find."""
    process_session(SparkConfiguration(master="local[2]", options=QUIET), needs_s3a=False)
    try:
        yield
    finally:
        stop_session()
