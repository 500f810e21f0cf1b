"""`perago.join` in a workflow on real servers: one history, and two that parted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.lakefs_world import MAIN
from tests.integration.worker_scene import WorkerScene, worker_scene
from tools.servers import ConductorServer, LakefsServer

from perago.domain.attempt import WorkflowStatus
from perago.domain.references import BranchName

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> AsyncIterator[WorkerScene]:
    """Two real servers and a folder."""
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as opened:
        yield opened


async def _start_join(scene: WorkerScene, refs: list[str], branch: str = MAIN) -> str:
    """A workflow that joins these commits of one branch."""
    name = scene.conductor.unique("joining")
    row = {"name": "perago.join", "taskReferenceName": "joined", "type": "SIMPLE"}
    await scene.conductor.workflows.put_definition(
        {
            "name": name,
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "data@example.com",
            "tasks": [row | {"inputParameters": {"params": "${workflow.input.params}"}}],
            "outputParameters": {"workspace": "${joined.output.result.workspace}"},
        }
    )
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
