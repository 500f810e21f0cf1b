"""One attempt end to end on real lakeFS and real Conductor, and the next task reads its output."""

from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker
from tests.contract.real_lakefs import RealLakeFS

from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition, build_taskdef
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.fence.install import install_fence
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.servers import Surroundings

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]


class Count(BaseModel):
    """Parameters of both tasks."""

    add: int


class Total(BaseModel):
    """What both tasks report."""

    files: int


def _declare(name: str) -> TaskDefinition:
    @task(name=name, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
    def body(workspace: Path, params: Count) -> Total:
        for number in range(params.add):
            (workspace / f"{name}-{number}.txt").write_text(f"{name} {number}")
        return Total(files=len(list(workspace.glob("*.txt"))))

    return task_of(body)


@pytest.mark.parametrize("policy", list(PolicySetting), ids=list(PolicySetting))
async def test_two_tasks_publish_one_after_the_other(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, policy: PolicySetting
) -> None:
    repository = await lakefs.create_repository()
    start = await lakefs.commit_files(repository, MAIN, {"data/a.txt": b"a", "other/b.txt": b"b"})
    tasks = [_declare(lakefs.unique_name("first")), _declare(lakefs.unique_name("second"))]
    worker = _worker(lakefs, conductor, tmp_path, tasks, policy)
    report = await install_fence(worker.fence, repository, MAIN)
    workflow = await _start(
        conductor,
        tasks,
        {
            "repository": repository,
            "branch": MAIN,
            "refType": "commit",
            "ref": report.commit,
        },
    )

    first = await worker.work(tasks[0].name)
    second = await worker.work(tasks[1].name)

    assert (first.error, second.error) == (None, None)
    ended = await conductor.workflows.read(workflow)
    assert ended is not None
    assert ended.status is WorkflowStatus.COMPLETED
    assert [row.snapshot.status for row in ended.attempts] == [AttemptStatus.COMPLETED] * 2
    assert second.update is not None
    assert second.update.output["result"] == {"files": 3}
    walk = await lakefs.commits.first_parents(repository, MAIN, start, commits_max=10)
    assert len(walk.above) == 3  # the fence and two publications
    listed = await lakefs.objects.list_page(repository, MAIN, prefix="")
    assert {entry.path for entry in listed.items} >= {"data/a.txt", "other/b.txt"}
    branches = await lakefs.branches.list_page(repository, "perago-", show_hidden=True)
    assert branches.items == ()
    assert _attempt_directories(tmp_path) == []


def _attempt_directories(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith("task")]


def _worker(
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    root: Path,
    tasks: list[TaskDefinition],
    policy: PolicySetting,
) -> AttemptWorker:
    around = Surroundings(SystemClock(), root, SystemIdentities(), AsyncioConcurrency())
    settings = AttemptSettings(worker_id="worker-1", publication=policy)
    return attempt_worker(lakefs.installation(), conductor, around, tasks, settings)


async def _start(
    conductor: ConductorInstallation, tasks: list[TaskDefinition], workspace: dict[str, str]
) -> str:
    for definition in tasks:
        await conductor.definitions.put(build_taskdef(definition))
    first, second = (definition.name for definition in tasks)
    name = f"flow_{first}"
    params = {"add": 1}
    rows = (
        simple(first, first, {"workspace": "${workflow.input.workspace}", "params": params}),
        simple(second, second, {"workspace": f"${{{first}.output.workspace}}", "params": params}),
    )
    await conductor.workflows.put_definition(workflow_of(name, *rows))
    return await conductor.workflows.start(name, {"workspace": workspace})
