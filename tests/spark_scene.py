"""A workflow of tasks on real servers, with Spark among them: what the Spark tests share.

Decides nothing; a test brings its tasks and looks at what is on the target afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attempt_worlds import AttemptWorker, Surroundings, attempt_worker
from tests.contract.lakefs_under_test import MAIN, LakeFSUnderTest
from tools.servers import LakefsServer

from perago.adapters.system.host import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.taskdef import build_taskdef
from perago.app.fence.install import install_fence
from perago.domain.logical_execution import CommitId, RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.workspace import SparkGateway


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
        return [entry.path for entry in listed.entries]

    async def branches(self) -> tuple[str, ...]:
        """What is left of private branches."""
        return (await self.lakefs.branches.list_page(self.repository, "perago-")).names


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
            lakefs.branches, lakefs.commits, lakefs.tags, lakefs.objects, lakefs.repositories
        )
        around = Surroundings(
            SystemClock(), SystemIdentities(), AsyncioConcurrency(), self.root, self.gateway
        )
        settings = AttemptSettings(worker_id="worker-1", publication=policy)
        worker = attempt_worker(installation, self.conductor, around, tasks, settings)
        report = await install_fence(worker.fence, repository, MAIN)
        assert report.commit is not None
        scene = SparkScene(lakefs, self.conductor, worker, tasks, repository, report.commit)
        scene.workflow = await _start(scene, params or {})
        return scene


async def _start(scene: SparkScene, params: Mapping[str, object]) -> str:
    rows: list[dict[str, object]] = []
    workspace = "${workflow.input.workspace}"
    for task in scene.tasks:
        definition = dict(build_taskdef(task)) | {"retryCount": 3, "retryDelaySeconds": 0}
        await scene.conductor.definitions.put(definition)
        given = {"workspace": workspace, "params": dict(params)}
        row: dict[str, object] = {"name": task.name, "taskReferenceName": task.name}
        rows.append({**row, "type": "SIMPLE", "inputParameters": given})
        workspace = f"${{{task.name}.output.workspace}}"
    name = f"flow_{scene.tasks[0].name}"
    definition = {"name": name, "version": 1, "schemaVersion": 2, "tasks": rows}
    definition["ownerEmail"] = "data@example.com"
    await scene.conductor.workflows.put_definition(definition)
    place = {"repository": scene.repository, "branch": MAIN, "refType": "commit"}
    return await scene.conductor.workflows.start(name, {"workspace": {**place, "ref": scene.start}})
