"""Spark tasks on real lakeFS, driven by real Conductor: published as local ones, or not at all."""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.contract.real_lakefs import connected
from tests.executor_killer import executor_killer
from tests.spark_scene import SparkStage, gateway_of, play_refused_and_passed

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.guardrails import require_glob
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.ports.workspace import SparkWorkspace
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.spark]

ORDERS = b"order,amount\n1,10\n2,20\n3,30\n"
INPUT = {"lake/orders/a.csv": ORDERS, "other/b.txt": b"b"}
OWNER = "data@example.com"
IN_LAKE = WorkspaceSpec(prefix="lake")


class Params(BaseModel):
    """Nothing to choose."""


class Names(BaseModel):
    """More than one commit's metadata holds."""

    names: list[str]


class Rows(BaseModel):
    """How many rows a task saw."""

    rows: int


@pytest_asyncio.fixture
async def stage(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    tmp_path: Path,
) -> AsyncIterator[SparkStage]:
    """Real servers and the session of this run."""
    del spark_session  # it is the one that bodies find
    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    conductor: ConductorInstallation = open_conductor(settings)
    async with connected(lakefs_server) as lakefs:
        yield SparkStage(lakefs, conductor, tmp_path, gateway_of(lakefs_server))
    await conductor.close()


def declared(
    body: Callable[[SparkWorkspace], int], name: str, spec: WorkspaceSpec = IN_LAKE
) -> TaskDefinition:
    """A Spark task of one function."""

    @task(name=name, owner_email=OWNER, workspace=spec)
    def run(workspace: SparkWorkspace, params: Params) -> Rows:
        del params
        return Rows(rows=body(workspace))

    return task_of(run)


def double(workspace: SparkWorkspace) -> int:
    """Read the input, write a table beside it."""
    orders = workspace.read.option("header", "true").csv("orders")
    doubled = orders.selectExpr("order", "cast(amount as int) * 2 as amount")
    workspace.write(doubled.repartition(2), "daily")
    return int(doubled.count())


@pytest.mark.usefixtures("any_master")
@pytest.mark.parametrize("policy", list(PolicySetting), ids=list(PolicySetting))
async def test_a_spark_task_publishes_and_a_local_task_reads_it(
    stage: SparkStage, unique_name: Callable[[str], str], policy: PolicySetting
) -> None:
    @task(name=unique_name("count"), owner_email=OWNER, workspace=IN_LAKE)
    def count(workspace: Path, params: Params) -> Rows:
        del params
        files = list((workspace / "daily").iterdir())
        (workspace / "count.txt").write_text(str(len(files)))
        return Rows(rows=len(files))

    guarded = WorkspaceSpec(
        prefix="lake", pre=[require_glob("orders/*.csv")], post=[require_glob("daily/*.parquet")]
    )
    tasks = [declared(double, unique_name("double"), guarded), task_of(count)]
    scene = await stage.play(tasks, INPUT, policy=policy)

    first, second = await scene.run_all()

    assert (first.error, second.error) == (None, None)
    assert first.update is not None
    assert first.update.output["result"] == {"rows": 3}
    ended = await scene.conductor.workflows.read(scene.workflow)
    assert ended is not None
    assert ended.status is WorkflowStatus.COMPLETED
    published = await scene.files(prefix="lake/")
    tables = [path for path in published if path.startswith("lake/daily/")]
    assert len(tables) == 2
    assert all(path.endswith(".parquet") for path in tables)
    assert await scene.branches() == ()


async def test_an_unchanged_workspace_is_a_no_op(
    stage: SparkStage, unique_name: Callable[[str], str]
) -> None:
    for policy in (PolicySetting.SETTLED, PolicySetting.HEAD_PARENT):
        reader = declared(lambda workspace: workspace.read.csv("orders").count(), unique_name("r"))
        scene = await stage.play([reader], INPUT, policy=policy)
        (report,) = await scene.run_all()
        assert report.error is None
        assert report.update is not None
        workspace = report.update.output["workspace"]
        assert isinstance(workspace, dict)
        assert workspace["ref"] == scene.start
        assert await scene.branches() == ()


def write_beside(workspace: SparkWorkspace) -> int:
    """Leave the prefix."""
    away = workspace.output("x").replace("/lake/x", "/elsewhere")
    workspace.spark.range(3).write.parquet(away)
    return 3


def write_reserved(workspace: SparkWorkspace) -> int:
    """Write where hooks live."""
    away = workspace.output("x").replace("/lake/x", "/_lakefs_actions/mine")
    workspace.spark.range(3).write.csv(away)
    return 3


def write_to_the_target(workspace: SparkWorkspace) -> int:
    """Go around publication."""
    repository = workspace.uri("x").split("/")[2]
    workspace.write(workspace.spark.range(3), "fine")
    workspace.spark.range(3).write.parquet(f"s3a://{repository}/main/lake/direct")
    return 3


def read_nothing(workspace: SparkWorkspace) -> int:
    """Open a table that is not there."""
    return int(workspace.table("missing").count())


def leave_a_stream(workspace: SparkWorkspace) -> int:
    """Return while a query runs."""
    stream = workspace.spark.readStream.format("rate").load()
    stream.writeStream.format("noop").queryName("left-open").start()
    return 0


def raise_after_writing(workspace: SparkWorkspace) -> int:
    """Fail with half of the work on the branch."""
    workspace.write(workspace.spark.range(3), "half")
    raise ValueError("the second half is missing")


@pytest.mark.usefixtures("any_master")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (write_beside, r"outside prefix lake: elsewhere/"),
        (write_reserved, r"outside prefix lake: _lakefs_actions/mine/"),
        (write_to_the_target, r"uncommitted objects \(lake/direct/.*lakectl branch reset"),
        (read_nothing, r"lake/missing"),
        (leave_a_stream, r"left streaming queries running: left-open"),
        (raise_after_writing, r"the second half is missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_bad_body_publishes_nothing(
    stage: SparkStage,
    unique_name: Callable[[str], str],
    body: Callable[[SparkWorkspace], int],
    text: str,
) -> None:
    scene = await stage.play([declared(body, unique_name("bad"))], INPUT)

    (report,) = await scene.run_all()

    assert report.update is not None
    assert report.update.status is AttemptStatus.FAILED
    assert re.search(text, str(report.error)), report.error
    head = await scene.lakefs.branches.head(scene.repository, MAIN)
    assert head.commit == scene.start
    assert await scene.branches() == ()


async def test_a_read_only_task_gets_the_commit_and_no_output(
    stage: SparkStage, unique_name: Callable[[str], str]
) -> None:
    spec = WorkspaceSpec(prefix="lake", read_only=True)
    count = declared(
        lambda workspace: workspace.read.text("orders").count(), unique_name("c"), spec
    )
    write = declared(double, unique_name("w"), spec)
    scene = await stage.play([count, write], INPUT)

    first, second = await scene.run_all()

    assert first.error is None
    assert "read-only" in str(second.error)
    assert await scene.branches() == ()


async def test_litter_and_losers_of_a_race_are_not_published(
    stage: SparkStage, unique_name: Callable[[str], str]
) -> None:
    def body(workspace: SparkWorkspace) -> int:
        workspace.write(workspace.spark.range(10).repartition(2), "daily")
        files = workspace.spark.read.parquet(workspace.output("daily")).inputFiles()
        loser = re.sub(r"-try\d+", "-try999", files[0])
        path = workspace.spark._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 - late executors
        system = path(loser).getFileSystem(workspace.spark._jsc.hadoopConfiguration())  # noqa: SLF001
        for name in (loser, workspace.output("daily/_temporary/0/part-0")):
            system.create(path(name)).close()
        return 10

    scene = await stage.play([declared(body, unique_name("litter"))], INPUT)
    (report,) = await scene.run_all()

    assert report.error is None
    daily = await scene.files(prefix="lake/daily")
    assert len(daily) == 2
    assert all("-try" in path and "-try999" not in path for path in daily)


@pytest.mark.usefixtures("any_master")
async def test_a_task_that_fails_while_it_writes_is_tried_again_by_spark(
    stage: SparkStage, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    marker = tmp_path / "failed-once"

    def body(workspace: SparkWorkspace) -> int:
        def fail_once(rows: Iterator[Any]) -> Iterator[Any]:
            for number, row in enumerate(rows):
                if row.id == 4000 and not marker.exists():
                    marker.touch()
                    raise RuntimeError(f"killed at row {number}")
                yield row

        numbers = workspace.spark.range(0, 5000, 1, 2)
        workspace.write(numbers.rdd.mapPartitions(fail_once).toDF(numbers.schema), "numbers")
        return int(workspace.spark.read.parquet(workspace.output("numbers")).count())

    scene = await stage.play([declared(body, unique_name("again"))], INPUT)
    (report,) = await scene.run_all()

    assert report.error is None
    assert marker.exists()
    assert report.update is not None
    assert report.update.output["result"] == {"rows": 5000}
    assert len(await scene.files(prefix="lake/numbers")) == 2


@pytest.mark.usefixtures("on_cluster")
async def test_an_executor_that_dies_while_it_writes_leaves_nothing_behind(
    stage: SparkStage, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    marker = tmp_path / "killed-once"

    def body(workspace: SparkWorkspace) -> int:
        kill_once = executor_killer(tmp_path)

        def die_once(rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                if row.id == 4000:
                    kill_once(marker.name)
                yield row

        numbers = workspace.spark.range(0, 5000, 1, 4)
        workspace.write(numbers.rdd.mapPartitions(die_once).toDF(numbers.schema), "numbers")
        return int(workspace.spark.read.parquet(workspace.output("numbers")).count())

    scene = await stage.play([declared(body, unique_name("executor"))], INPUT)
    (report,) = await scene.run_all()

    assert report.error is None
    assert marker.exists()
    assert report.update is not None
    assert report.update.output["result"] == {"rows": 5000}
    assert len(await scene.files(prefix="lake/numbers")) == 4


async def test_a_large_result_is_stored_under_the_staged_commit(
    stage: SparkStage, unique_name: Callable[[str], str]
) -> None:
    @task(name=unique_name("large"), owner_email=OWNER, workspace=IN_LAKE)
    def run(workspace: SparkWorkspace, params: Params) -> Names:
        del params
        workspace.write(workspace.spark.range(3), "daily")
        return Names(names=[hashlib.sha512(str(n).encode()).hexdigest() for n in range(5000)])

    scene = await stage.play([task_of(run)], INPUT)
    (report,) = await scene.run_all()

    assert report.error is None
    assert await scene.files(prefix="lake/daily")


def written_below(directory: Path) -> list[str]:
    """The texts of all files."""
    return [path.read_text() for path in directory.rglob("*") if path.is_file()]


async def test_keys_are_redacted_wherever_spark_shows_options(
    stage: SparkStage,
    unique_name: Callable[[str], str],
    spark_events: Path,
    lakefs_server: LakefsServer,
) -> None:
    def body(workspace: SparkWorkspace) -> int:
        workspace.spark.sql("set spark.sql.shuffle.partitions=3").collect()
        # A file that is added makes Spark write down its whole environment again.
        added = Path(spark_events / "added.txt")
        added.write_text("x")
        workspace.spark.sparkContext.addFile(str(added))
        return double(workspace)

    scene = await stage.play([declared(body, unique_name("keys"))], INPUT)
    (report,) = await scene.run_all()

    assert report.error is None
    texts = written_below(spark_events)
    assert any("fs.s3a.bucket" in text or "redacted" in text for text in texts)
    for text in texts:
        assert lakefs_server.secret_access_key not in text
        assert lakefs_server.access_key_id not in text


async def test_checks_of_a_spark_task_read_the_staged_commit(
    stage: SparkStage, unique_name: Callable[[str], str]
) -> None:
    await play_refused_and_passed(stage, unique_name)
