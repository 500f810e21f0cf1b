"""A task on Spark, and a check that reads the staged commit with Spark.

The check is plain Spark, because pandera on Spark needs pandas, pyarrow and grpcio beside pyspark.
"""

from pydantic import BaseModel

from perago import (
    RetryPolicy,
    SparkWorkspace,
    StagedView,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    require_glob,
    task,
)


class NoParams(BaseModel):
    """Nothing to choose."""


class Written(BaseModel):
    """How many days the task wrote."""

    days: int


def no_day_is_negative(view: StagedView) -> None:
    """The data frame is of the staged commit, and nothing of it is on the target yet."""
    wrong = view.read.parquet("daily").where("total is null or total < 0")
    examples = [row.asDict() for row in wrong.limit(3).collect()]
    if examples:
        raise ValueError(f"{wrong.count()} days are wrong, for example {examples}")


@task(
    name="orders.daily",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="orders", pre=[require_glob("raw/*.csv")], checks=[no_day_is_negative]
    ),
    controls=TaskControls(
        retry=RetryPolicy(count=1, delay_seconds=0), timeout=TimeoutPolicy(response_seconds=60)
    ),
)
def daily(workspace: SparkWorkspace, params: NoParams) -> Written:
    """Add up the amounts of each day."""
    del params
    raw = workspace.read.option("header", "true").csv("raw")
    totals = raw.selectExpr("day", "cast(amount as int) as amount").groupBy("day").sum("amount")
    workspace.write(totals.toDF("day", "total"), "daily")
    return Written(days=totals.count())
