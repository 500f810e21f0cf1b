"""Spark tasks on real lakeFS, driven by real Conductor: published as local ones, or not at all."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.contract.real_lakefs import connected
from tests.spark_scene import SparkStage, gateway_of
from tools.servers import ConductorServer, LakefsServer

from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.guardrail_declaration import require_glob
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.domain.publication_policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.ports.spark_workspace import SparkWorkspace

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.spark]

ORDERS = b"order,amount\n1,10\n2,20\n3,30\n"
OWNER = "data@example.com"
IN_LAKE = WorkspaceSpec(prefix="lake")


class Params(BaseModel):
    """Nothing to choose."""


class Rows(BaseModel):
    """How many rows a task saw."""

    rows: int


@pytest_asyncio.fixture
async def stage(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: Any,
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


@pytest.mark.parametrize("policy", list(PolicySetting), ids=list(PolicySetting))
async def test_a_spark_task_publishes_and_a_local_task_reads_it(
    stage: SparkStage, lakefs_name: Callable[[str], str], policy: PolicySetting
) -> None:
    @task(name=lakefs_name("count"), owner_email=OWNER, workspace=IN_LAKE)
    def count(workspace: Path, params: Params) -> Rows:
        del params
        files = list((workspace / "daily").iterdir())
        (workspace / "count.txt").write_text(str(len(files)))
        return Rows(rows=len(files))

    guarded = WorkspaceSpec(
        prefix="lake", pre=[require_glob("orders/*.csv")], post=[require_glob("daily/*.parquet")]
    )
    tasks = [declared(double, lakefs_name("double"), guarded), task_of(count)]
    files = {"lake/orders/a.csv": ORDERS, "other/b.txt": b"b"}
    scene = await stage.play(tasks, files, policy=policy)

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
