"""lakeFS is away for 20 s while a Spark task reads, writes, or is staged: the function runs once."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.contract.real_lakefs import connected
from tests.integration.outage_proxy import outage_proxy
from tests.spark_scene import SparkStage, gateway_of
from tools.servers import ConductorServer, LakefsServer

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.ports.workspace import SparkWorkspace

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.spark,
    pytest.mark.timeout(180),
]
AWAY_SECONDS = 20.0
MOMENTS: Mapping[str, str] = {
    "as executors read": r"GET /[^ ]*/lake/orders/a\.csv",
    "as executors write": r"PUT /[^ ]*/perago-staging-",
    "as litter is looked for": r"GET [^ ]*/branches/perago-staging-[^ /]*/diff",
    "at the staged commit": r"POST [^ ]*/branches/perago-staging-[^ /]*/commits",
}


class Params(BaseModel):
    """Nothing to choose."""


class Rows(BaseModel):
    """How many rows a task saw."""

    rows: int


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_outage_of_twenty_seconds_costs_a_spark_task_no_attempt(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    moment: str,
) -> None:
    del spark_session  # it is the one that the function finds
    runs: list[int] = []

    @task(
        name=unique_name("away"),
        owner_email="a@example.com",
        workspace=WorkspaceSpec(prefix="lake"),
    )
    def double(workspace: SparkWorkspace, params: Params) -> Rows:
        del params
        runs.append(1)
        orders = workspace.read.option("header", "true").csv("orders")
        workspace.write(orders.selectExpr("cast(amount as int) * 2 as amount"), "daily")
        return Rows(rows=orders.count())

    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    conductor = open_conductor(settings)
    async with (
        outage_proxy(lakefs_server.endpoint) as proxy,
        connected(lakefs_server, proxy.endpoint) as lakefs,
    ):
        gateway = gateway_of(lakefs_server, proxy.endpoint)
        stage = SparkStage(lakefs, conductor, tmp_path, gateway)
        scene = await stage.play([task_of(double)], {"lake/orders/a.csv": b"order,amount\n1,10\n"})
        left = asyncio.Event()

        def leave() -> None:
            proxy.leave()
            left.set()

        proxy.when(MOMENTS[moment], leave)
        running = asyncio.create_task(scene.run_all())
        async with asyncio.timeout(60):
            await left.wait()
        await asyncio.sleep(AWAY_SECONDS)
        assert not running.done(), "it waits, whoever asks"
        await proxy.come_back()
        back = time.monotonic()
        (report,) = await running
        print(f"{moment}: {time.monotonic() - back:.1f} s after its return")  # noqa: T201
        assert report.error is None
        assert runs == [1]
        ended = await conductor.workflows.read(scene.workflow)
        assert ended is not None
        assert ended.status is WorkflowStatus.COMPLETED
        assert len(ended.attempts) == 1
        assert any(path.startswith("lake/daily/") for path in await scene.files(prefix="lake/"))
        assert await scene.branches() == ()
    await conductor.close()
