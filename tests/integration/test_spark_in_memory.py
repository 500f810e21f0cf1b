"""The same Spark task on in-memory lakeFS and Conductor: local files stand in, no server runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.contract.adapters import open_memory_lakefs
from tests.spark_scene import SparkStage, play_refused_and_passed

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.authoring.guardrails import require_glob
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.policy import PolicySetting
from perago.ports.workspace import SparkWorkspace

pytestmark = pytest.mark.spark

GUARDED = WorkspaceSpec(
    prefix="lake", pre=[require_glob("orders/*.csv")], post=[require_glob("daily/*.parquet")]
)


# Named and not all of the enum: the task replaces a file, and a policy may refuse deletions.
POLICIES = [
    PolicySetting.AUTO,
    PolicySetting.HEAD_PARENT,
    PolicySetting.LINEAGE,
    PolicySetting.SETTLED,
]


class Params(BaseModel):
    """Whether to write anything."""

    write: bool = True


class Rows(BaseModel):
    """How many rows the task saw."""

    rows: int


@pytest.mark.parametrize("write", [True, False], ids=["changed", "no-op"])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_spark_task_needs_no_server(
    request: pytest.FixtureRequest,
    spark_session: object,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    policy: PolicySetting,
    *,
    write: bool,
) -> None:
    del spark_session  # it is the one that bodies find

    @task(name=unique_name("double"), owner_email="data@example.com", workspace=GUARDED)
    def double(workspace: SparkWorkspace, params: Params) -> Rows:
        orders = workspace.read.option("header", "true").csv("orders")
        if params.write:
            workspace.write(orders.repartition(2), "daily")
        return Rows(rows=orders.count())

    async with open_memory_lakefs(request) as lakefs:
        conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
        stage = SparkStage(lakefs, conductor, tmp_path, None)
        files = {"lake/orders/a.csv": b"order,amount\n1,10\n2,20\n", "lake/daily/old.parquet": b""}
        scene = await stage.play([task_of(double)], files, policy=policy, params={"write": write})
        (report,) = await scene.run_all()

        assert report.error is None
        assert report.update is not None
        assert report.update.output["result"] == {"rows": 2}
        daily = await scene.files(prefix="lake/daily")
        assert await scene.branches() == ()
        if write:
            assert len(daily) == 2
            assert all(path.endswith(".snappy.parquet") for path in daily)
        else:
            assert daily == ["lake/daily/old.parquet"]


async def test_checks_of_a_spark_task_read_the_staged_commit(
    request: pytest.FixtureRequest,
    spark_session: object,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    del spark_session  # it is the one that bodies find
    async with open_memory_lakefs(request) as lakefs:
        conductor = conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
        await play_refused_and_passed(SparkStage(lakefs, conductor, tmp_path, None), unique_name)
