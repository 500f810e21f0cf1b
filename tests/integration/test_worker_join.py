"""`perago.join` in a workflow on real servers: one history, and two that parted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.worker_scene import TaskModule, WorkerScene, worker_scene

from perago.domain.attempt import WorkflowStatus
from perago.domain.lakefs import BranchName
from perago.testing.contract.conductor_under_test import simple, system, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

JOINED = {"workspace": "${joined.output.result.workspace}"}
pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]


@pytest_asyncio.fixture
async def forking_scene(
    lakefs_server: LakefsServer, conductor_workers_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """The same with a Conductor whose own workers drive JOIN."""
    async with worker_scene((lakefs_server, conductor_workers_server), tmp_path) as opened:
        yield opened


async def _start_join(scene: WorkerScene, refs: list[str], branch: str = MAIN) -> str:
    """A workflow that joins these commits of one branch."""
    name = scene.conductor.unique("joining")
    row = simple("perago.join", "joined", {"params": "${workflow.input.params}"})
    await scene.conductor.workflows.put_definition(workflow_of(name, row, outputParameters=JOINED))
    workspaces = [
        {"repository": scene.repository, "branch": branch, "refType": "commit", "ref": ref}
        for ref in refs
    ]
    return await scene.conductor.workflows.start(name, {"params": {"workspaces": workspaces}})


async def test_the_newest_of_one_history_stands_for_all(scene: WorkerScene) -> None:
    second = await scene.lakefs.commit_files(scene.repository, MAIN, {"data/b.txt": b"b"})
    third = await scene.lakefs.commit_files(scene.repository, MAIN, {"data/c.txt": b"c"})
    await scene.conductor.definitions.put(
        {"name": "perago.join", "ownerEmail": "data@example.com", "retryDelaySeconds": 0}
    )
    module = await scene.declare(workspace=True)
    async with scene.polling_worker([module]) as worker:
        joined = await scene.ended(await _start_join(scene, [second, third, scene.start_commit]))
        assert joined.status is WorkflowStatus.COMPLETED, worker.screen
        assert joined.output_data == {
            "workspace": {
                "repository": scene.repository,
                "branch": MAIN,
                "refType": "commit",
                "ref": third,
            }
        }


async def test_histories_that_parted_are_refused_with_both_sides(scene: WorkerScene) -> None:
    await scene.lakefs.branches.create(scene.repository, BranchName("side"), scene.start_commit)
    here = await scene.lakefs.commit_files(scene.repository, MAIN, {"data/b.txt": b"b"})
    there = await scene.lakefs.commit_files(
        scene.repository, BranchName("side"), {"data/c.txt": b"c"}
    )
    module = await scene.declare(workspace=True)
    async with scene.polling_worker([module]) as worker:
        workflow = await _start_join(scene, [here, there])
        for _ in range(300):
            ends = [each for each in worker.events("attempt ended") if each["code"]]
            if ends:
                break
            await asyncio.sleep(0.05)
        await scene.conductor.workflows.terminate(workflow, "over")
    reason = worker.events("attempt ended")[0]["reason"]
    assert f"contains [{here}] and lacks [{there}]" in reason


async def _declare_side(scene: WorkerScene, side: str) -> TaskModule:
    """A task that writes one file below its own prefix."""
    body = '(workspace / "made.txt").write_text(str(params.number))'
    module = await scene.declare(body, workspace=True)
    text = module.path.read_text(encoding="utf-8")
    spec = f'prefix="{side}", isolation="prefix"'
    module.path.write_text(text.replace('prefix="data"', spec), encoding="utf-8")
    return module


def _forked(name: str, modules: list[TaskModule]) -> dict[str, object]:
    """FORK, a task on each prefix, JOIN, then the join of the workspaces."""
    references = [module.name for module in modules]
    given = {"params": {"number": 7}, "workspace": "${workflow.input.workspace}"}
    joined = [f"${{{each}.output.workspace}}" for each in references]
    return workflow_of(
        name,
        system("FORK_JOIN", "fork", forkTasks=[[simple(each, each, given)] for each in references]),
        system("JOIN", "wait", joinOn=references),
        simple("perago.join", "joined", {"params": {"workspaces": joined}}),
        outputParameters=JOINED,
    )


async def test_branches_of_a_fork_publish_their_prefixes_and_are_joined(
    forking_scene: WorkerScene,
) -> None:
    scene, lakefs = forking_scene, forking_scene.lakefs
    fenced = await lakefs.install_fence(scene.repository)
    await scene.conductor.definitions.put(
        {"name": "perago.join", "ownerEmail": "data@example.com", "retryDelaySeconds": 0}
    )
    modules = [await _declare_side(scene, side) for side in ("left", "right")]
    name = scene.conductor.unique("forked")
    await scene.conductor.workflows.put_definition(_forked(name, modules))
    place = {"repository": scene.repository, "branch": MAIN, "refType": "commit", "ref": fenced}
    async with scene.polling_worker(modules, "-j", "2") as worker:
        workflow = await scene.conductor.workflows.start(name, {"workspace": place})
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
    head = await lakefs.branches.head(scene.repository, MAIN)
    assert ended.output_data == {"workspace": place | {"ref": head.commit}}
    published = await lakefs.commits.first_parents(scene.repository, MAIN, fenced, commits_max=10)
    assert len(published.above) == 2, "each branch published once"
    for side in ("left", "right"):
        page = await lakefs.objects.list_page(scene.repository, head.commit, prefix=f"{side}/")
        assert [each.path for each in page.items] == [f"{side}/made.txt"]
