"""The task that executors of Spark tests run: it counts, or hangs, and tells its JVM."""

import time
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.task_body import BodyCall
from perago.ports.workspace import SparkRoots, SparkWorkspace

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

        sleeper = workspace.spark.sparkContext.parallelize([HANG_SECONDS], 1)
        sleeper.map(sleep).count()
    workspace.write(workspace.spark.range(5), "numbers")
    written = workspace.spark.read.parquet(workspace.output("numbers"))
    return Result(rows=written.count())


WORK = task_of(work)


def call_of(root: Path, execution: str, *, hang: bool) -> BodyCall:
    """One call on local files."""
    attempt = AttemptSnapshot("w1", "t1", "work_ref", WORK.name, AttemptStatus.IN_PROGRESS)
    place = SparkRoots(
        repository=RepositoryId("repo"),
        input_ref=CommitId("input"),
        prefix="lake",
        input_root=f"file://{root}/input/",
        output_root=f"file://{root}/output/",
    )
    params = {"hang": hang, "tell": str(root / execution)}
    call = BodyCall(WORK.name, attempt, ExecutionId(execution), params, workspace=None)
    return replace(call, spark=place)
