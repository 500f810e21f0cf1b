"""A workflow of tasks on real servers, with Spark among them: what the Spark tests share.

Decides nothing; a test brings its tasks and looks at what is on the target afterwards.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker

from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition, build_taskdef
from perago.app.authoring.workspace_spec import StagedView, WorkspaceSpec
from perago.app.fence.install import install_fence
from perago.domain.errors import CheckFailedError
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.workspace import SparkGateway, SparkWorkspace
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN, LakeFSUnderTest
from perago.testing.servers import Surroundings
from perago_servers import LakefsServer


def gateway_of(server: LakefsServer, endpoint: str | None = None) -> SparkGateway:
    """How Spark reaches a server of this session."""
    return SparkGateway(endpoint or server.endpoint, server.access_key_id, server.secret_access_key)


@dataclass
class SparkScene:
    """One repository, one running workflow, one worker."""

    lakefs: LakeFSUnderTest
    conductor: ConductorInstallation
    worker: AttemptWorker
    tasks: Sequence[TaskDefinition]
    repository: RepositoryId
    start: CommitId
    workflow: str = ""

    async def run_all(self) -> list[AttemptReport]:
        """Work every task once, in order."""
        return [await self.worker.work(task.name) for task in self.tasks]

    async def files(self, ref: str = MAIN, prefix: str = "") -> list[str]:
        """The paths of a reference."""
        listed = await self.lakefs.objects.list_page(self.repository, ref, prefix=prefix)
        return [entry.path for entry in listed.items]

    async def branches(self) -> tuple[str, ...]:
        """What is left of private branches."""
        page = await self.lakefs.branches.list_page(self.repository, "perago-", show_hidden=True)
        return tuple(branch.name for branch in page.items)


@dataclass(frozen=True)
class SparkStage:
    """Where scenes are played: the servers, and the gateway that Spark is given."""

    lakefs: LakeFSUnderTest
    conductor: ConductorInstallation
    root: Path
    gateway: SparkGateway | None

    async def play(
        self,
        tasks: Sequence[TaskDefinition],
        files: Mapping[str, bytes],
        *,
        policy: PolicySetting = PolicySetting.SETTLED,
        params: Mapping[str, object] | None = None,
    ) -> SparkScene:
        """A repository with files and the fence, and a workflow of the tasks, started."""
        lakefs = self.lakefs
        repository = await lakefs.create_repository()
        await lakefs.commit_files(repository, MAIN, files)
        installation = LakeFSInstallation(
            lakefs.branches,
            lakefs.commits,
            lakefs.tags,
            lakefs.objects,
            lakefs.repositories,
            transport=partial(MemoryTransport, lakefs.objects),
        )
        around = Surroundings(SystemClock(), self.root, SystemIdentities(), AsyncioConcurrency())
        settings = AttemptSettings(worker_id="worker-1", publication=policy)
        worker = attempt_worker(installation, self.conductor, around, tasks, settings)
        worker = replace(worker, harness=replace(worker.harness, spark_gateway=self.gateway))
        report = await install_fence(worker.fence, repository, MAIN)
        assert report.commit is not None
        scene = SparkScene(lakefs, self.conductor, worker, tasks, repository, report.commit)
        scene.workflow = await _start(scene, params or {})
        return scene


async def _start(scene: SparkScene, params: Mapping[str, object]) -> str:
    rows: list[dict[str, object]] = []
    workspace = "${workflow.input.workspace}"
    for each in scene.tasks:
        definition = dict(build_taskdef(each)) | {"retryCount": 3, "retryDelaySeconds": 0}
        await scene.conductor.definitions.put(definition)
        given = {"workspace": workspace, "params": dict(params)}
        rows.append(simple(each.name, each.name, given))
        workspace = f"${{{each.name}.output.workspace}}"
    name = f"flow_{scene.tasks[0].name}"
    await scene.conductor.workflows.put_definition(workflow_of(name, *rows))
    place = {"repository": scene.repository, "branch": MAIN, "refType": "commit"}
    return await scene.conductor.workflows.start(name, {"workspace": {**place, "ref": scene.start}})


class NoParams(BaseModel):
    """Nothing to choose."""


class Rows(BaseModel):
    """How many rows the task wrote."""

    rows: int


async def play_refused_and_passed(stage: SparkStage, unique_name: Callable[[str], str]) -> None:
    """A check sees what is staged and nothing else, refuses the first commit, passes the second."""
    seen: list[object] = []

    def look(view: StagedView) -> None:
        total = view.read.parquet("daily").agg({"amount": "sum"}).head()[0]
        with view.open("orders/a.csv") as file:
            seen.append((total, file.read(), file.writable()))
        seen.append((view.size("orders/a.csv"), view.changed, view.removed))
        assert set(view.paths) == {"orders/a.csv", *view.added}
        assert view.spark.range(2).count() == 2
        if len(seen) == 2:
            raise ValueError(f"{total} is too much")

    spec = WorkspaceSpec(prefix="lake", checks=[look])

    @task(name=unique_name("checked"), owner_email="data@example.com", workspace=spec)
    def double(workspace: SparkWorkspace, params: NoParams) -> Rows:
        del params
        orders = workspace.read.option("header", "true").csv("orders")
        doubled = orders.selectExpr("cast(amount as int) * 2 as amount")
        workspace.write(doubled, "daily")
        return Rows(rows=doubled.count())

    orders = b"order,amount\n1,10\n2,20\n"
    scene = await stage.play([task_of(double)], {"lake/orders/a.csv": orders, "other/b": b"b"})
    (refused,) = await scene.run_all()
    assert isinstance(refused.error, CheckFailedError)
    assert "check look failed: ValueError: 60 is too much" in str(refused.error)
    assert await scene.files(prefix="lake/daily") == []
    (kept,) = await scene.branches()

    (passed,) = await scene.run_all()

    assert passed.error is None
    assert len(await scene.files(prefix="lake/daily")) == 1
    assert await scene.branches() == (kept,)
    assert seen == [(60, orders, False), (len(orders), (), ())] * 2
