"""Three Spark tasks in a row on real servers, with executors dying: right row by row.

The short form runs in the gate, the long one with every kill in `make soak`.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel
from tests.contract.lakefs_world import MAIN
from tests.contract.real_lakefs import connected
from tests.counted_bytes import counted
from tests.spark_scene import SparkStage, gateway_of
from tools.servers import ConductorServer, LakefsServer

from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.ports.spark_workspace import SparkWorkspace

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.spark]

OWNER = "data@example.com"
IN_LAKE = WorkspaceSpec(prefix="lake")
CUSTOMERS = 97
SAMPLE = 1000
BYTES_A_ROW = 38  # of Parquet: a hash does not compress
WORKER_SHARE_MAX = 0.01


class Params(BaseModel):
    """How many orders there are."""

    rows: int


class Rows(BaseModel):
    """How many rows a task wrote."""

    rows: int


FromSpark: TypeAlias = Any  # sessions, rows and frames


def three_tasks(name: Callable[[str], str], marks: Path) -> list[TaskDefinition]:
    """Ingest generates, clean samples, total aggregates; each of the latter is hurt once."""

    @task(name=name("ingest"), owner_email=OWNER, workspace=IN_LAKE)
    def ingest(workspace: SparkWorkspace, params: Params) -> Rows:
        orders = workspace.spark.range(0, params.rows, 1, 8).selectExpr(
            "id",
            f"id * 31 % {CUSTOMERS} as customer",
            "id * 7919 % 1000 as amount",
            "md5(cast(id as string)) as receipt",
        )
        workspace.write(orders, "orders")
        return Rows(rows=params.rows)

    @task(name=name("clean"), owner_email=OWNER, workspace=IN_LAKE)
    def clean(workspace: SparkWorkspace, params: Params) -> Rows:
        sample = workspace.table("orders").where(f"id % {SAMPLE} = 0").repartition(4)
        hurt = sample.rdd.mapPartitions(executor_killer(marks / "executor-killed"))
        workspace.write(hurt.toDF(sample.schema), "sample")
        return Rows(rows=params.rows)

    @task(name=name("total"), owner_email=OWNER, workspace=IN_LAKE)
    def total(workspace: SparkWorkspace, params: Params) -> Rows:
        del params
        orders = workspace.table("orders")
        totals = orders.groupBy("customer").agg({"amount": "sum", "id": "count"})
        named = totals.toDF(*[column.replace("(", "_").rstrip(")") for column in totals.columns])
        hurt = named.rdd.mapPartitions(task_failer(marks / "task-failed"))
        workspace.write(hurt.toDF(named.schema), "totals")
        return Rows(rows=CUSTOMERS)

    return [task_of(ingest), task_of(clean), task_of(total)]


def task_failer(mark: Path) -> Callable[[Iterator[FromSpark]], Iterator[FromSpark]]:
    """Raise once, after a row was written. The executors have no module of tests: a closure."""

    def fail_once(rows: Iterator[FromSpark]) -> Iterator[FromSpark]:
        for row in rows:
            yield row
            if not mark.exists():
                mark.touch()
                raise RuntimeError("a task dies while it writes")

    return fail_once


def executor_killer(mark: Path) -> Callable[[Iterator[FromSpark]], Iterator[FromSpark]]:
    """Kill the JVM above a Python worker once, after a row was written."""

    def executor() -> int:
        above = os.getpid()
        for _ in range(4):
            status = Path(f"/proc/{above}/status").read_text()
            above = int(status.partition("PPid:")[2].split()[0])
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{above}/cmdline").read_bytes():
                return above
        raise RuntimeError("no executor above this worker")

    def kill_once(rows: Iterator[FromSpark]) -> Iterator[FromSpark]:
        for row in rows:
            yield row
            if not mark.exists():
                mark.touch()
                os.kill(executor(), signal.SIGKILL)

    return kill_once


async def run_workflow(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    session: FromSpark,
    root: Path,
    name: Callable[[str], str],
    *,
    rows: int,
) -> None:
    """The whole scene: three publications, every table right, hardly a byte through the worker."""
    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    conductor = open_conductor(settings)
    tasks = three_tasks(name, root)
    with counted(lakefs_server.endpoint) as worker:
        async with connected(lakefs_server, worker.endpoint) as lakefs:
            stage = SparkStage(lakefs, conductor, root / "work", gateway_of(lakefs_server))
            scene = await stage.play(tasks, {"other/b.txt": b"b"}, params={"rows": rows})
            reports = await scene.run_all()
            assert [report.error for report in reports] == [None] * 3
            ended = await scene.conductor.workflows.read(scene.workflow)
            assert ended is not None
            assert ended.status is WorkflowStatus.COMPLETED
            walk = await lakefs.commits.first_parents(
                scene.repository, MAIN, scene.start, commits_max=10
            )
            assert len(walk.above) == 3
            assert await scene.branches() == ()
            listed = await lakefs.objects.list_page(scene.repository, MAIN, prefix="lake/")
            sizes = {entry.path: entry.size for entry in listed.entries}
    await conductor.close()
    assert all(path.endswith(".parquet") for path in sizes)
    stored = sum(sizes.values())
    assert stored > rows * BYTES_A_ROW * 0.8
    assert worker.bytes < stored * WORKER_SHARE_MAX, (worker.bytes, stored)
    check_tables(session, f"s3a://{scene.repository}/main/lake", rows)


def check_tables(session: FromSpark, root: str, rows: int) -> None:
    """Compare with what plain Python computes."""
    sample = session.read.parquet(f"{root}/sample").select("id", "customer", "amount").collect()
    expected = [
        (number, number * 31 % CUSTOMERS, number * 7919 % 1000) for number in range(0, rows, SAMPLE)
    ]
    assert sorted((row[0], row[1], row[2]) for row in sample) == expected
    amounts, counts = Counter[int](), Counter[int]()
    for number in range(rows):
        customer = number * 31 % CUSTOMERS
        amounts[customer] += number * 7919 % 1000
        counts[customer] += 1
    totals = session.read.parquet(f"{root}/totals").select("customer", "sum_amount", "count_id")
    assert sorted((row[0], row[1], row[2]) for row in totals.collect()) == [
        (customer, amounts[customer], counts[customer]) for customer in sorted(counts)
    ]


@pytest.mark.usefixtures("on_cluster")
async def test_three_spark_tasks_survive_a_dead_executor_and_a_failed_task(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    rows = 50_000_000 // BYTES_A_ROW
    await run_workflow(
        lakefs_server, conductor_server, spark_session, tmp_path, unique_name, rows=rows
    )
    assert (tmp_path / "executor-killed").exists()
    assert (tmp_path / "task-failed").exists()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("on_cluster")
async def test_a_gigabyte_through_three_spark_tasks(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    rows = 1_000_000_000 // BYTES_A_ROW
    await run_workflow(
        lakefs_server, conductor_server, spark_session, tmp_path, unique_name, rows=rows
    )
    assert (tmp_path / "executor-killed").exists()
