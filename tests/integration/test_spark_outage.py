"""lakeFS is away for 20 s while a Spark task reads, writes or is staged: it runs once."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.contract.real_lakefs import connected
from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.spark_scene import SparkStage, gateway_of

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.ports.installations import ConductorInstallation
from perago.ports.workspace import SparkWorkspace
from perago_servers import ConductorServer, LakefsServer

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


@pytest_asyncio.fixture
async def conductor(conductor_server: ConductorServer) -> AsyncIterator[ConductorInstallation]:
    """Conductor, which stays."""
    settings = ConductorSettings(url=conductor_server.api_url, request_timeout_seconds=60)
    opened: ConductorInstallation = open_conductor(settings)
    yield opened
    await opened.close()


def doubling(name: str, runs: list[int]) -> TaskDefinition:
    """A Spark task that counts its runs."""

    @task(name=name, owner_email="a@example.com", workspace=WorkspaceSpec(prefix="lake"))
    def double(workspace: SparkWorkspace, params: Params) -> Rows:
        del params
        runs.append(1)
        orders = workspace.read.option("header", "true").csv("orders")
        workspace.write(orders.selectExpr("cast(amount as int) * 2 as amount"), "daily")
        return Rows(rows=orders.count())

    return task_of(double)


async def away(proxy: OutageProxy, pattern: str, running: "asyncio.Task[Any]") -> None:
    """Let lakeFS leave at the first request of a kind, for its time."""
    left = asyncio.Event()

    def leave() -> None:
        proxy.leave()
        left.set()

    proxy.when(pattern, leave)
    async with asyncio.timeout(60):
        await left.wait()
    await asyncio.sleep(AWAY_SECONDS)
    assert not running.done(), "it waits, whoever asks"
    await proxy.come_back()


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_outage_of_twenty_seconds_costs_a_spark_task_no_attempt(
    lakefs_server: LakefsServer,
    conductor: ConductorInstallation,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    moment: str,
) -> None:
    runs: list[int] = []
    spark_task = doubling(unique_name("away"), runs)
    async with (
        outage_proxy(lakefs_server.endpoint) as proxy,
        connected(lakefs_server, proxy.endpoint) as lakefs,
    ):
        gateway = gateway_of(lakefs_server, proxy.endpoint)
        stage = SparkStage(lakefs, conductor, tmp_path, gateway)
        scene = await stage.play([spark_task], {"lake/orders/a.csv": b"order,amount\n1,10\n"})
        running = asyncio.create_task(scene.run_all())
        await away(proxy, MOMENTS[moment], running)
        back = time.monotonic()
        (report,) = await running
        print(f"{moment}: {time.monotonic() - back:.1f} s after its return")  # noqa: T201
        assert (report.error, runs) == (None, [1])
        ended = await conductor.workflows.read(scene.workflow)
        assert ended is not None
        assert (ended.status, len(ended.attempts)) == (WorkflowStatus.COMPLETED, 1)
        assert any(path.startswith("lake/daily/") for path in await scene.files(prefix="lake/"))
        assert await scene.branches() == ()
