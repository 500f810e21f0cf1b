"""The task that executors of Spark tests run: it counts, or hangs, and tells its JVM."""

import time
from pathlib import Path

from pydantic import BaseModel

from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.ports.spark_workspace import SparkWorkspace

HANG_SECONDS = 600


class Params(BaseModel):
    """What to do, and where to tell the process of the JVM."""

    hang: bool
    tell: str


class Result(BaseModel):
    """What was counted."""

    rows: int


@task(name="spark-work", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="lake"))
def work(workspace: SparkWorkspace, params: Params) -> Result:
    """Write a table, or never end."""
    handle = workspace.spark._jvm.java.lang.ProcessHandle  # noqa: SLF001 - no other way to its pid
    Path(params.tell).write_text(str(handle.current().pid()))
    if params.hang:

        def sleep(seconds: float) -> None:
            time.sleep(seconds)  # noqa: TID251 - a body of a team has no Clock

        sleeper = workspace.spark.sparkContext.parallelize([HANG_SECONDS])
        sleeper.map(sleep).count()
    workspace.write(workspace.spark.range(5), "numbers")
    written = workspace.spark.read.parquet(workspace.output("numbers"))
    return Result(rows=written.count())


WORK = task_of(work)
