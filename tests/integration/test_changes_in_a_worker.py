"""What changed since the last publication, asked by an executor, answered by its worker."""

import signal

import pytest
from tests.integration.worker_scene import WorkerScene
from tests.unit.app.attempt.test_changes_since import FILES, SEEN, index

from perago import Changes
from perago.domain.attempt import WorkflowStatus
from perago.testing import PeragoEnvironment
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
ASKS = """
from perago import current_attempt
found = current_attempt().changes()
paths = "" if found is None else f"{found.added} {found.changed} {found.removed}"
said = "everything" if found is None else f"{found.since} {paths}"
(workspace / "out.txt").write_text(said)
"""


@pytest.mark.parametrize("mode", ["process", "thread"])
async def test_the_second_workflow_sees_what_others_changed(scene: WorkerScene, mode: str) -> None:
    module = await scene.declare(ASKS, workspace=True)
    async with scene.polling_worker(
        [module], "--execution-mode", mode, PERAGO_CODE_VERSION="app@sha256:0a1b"
    ) as worker:
        first = await scene.ended(await scene.start(module))
        assert first.status is WorkflowStatus.COMPLETED, worker.screen
        published = await scene.lakefs.branches.head(scene.repository, MAIN)
        assert published.metadata["perago.code_version"] == "app@sha256:0a1b"
        assert published.metadata["perago.task_type"] == module.name

        files = {"data/a.txt": None, "data/b.txt": b"b", "elsewhere": b"x"}
        changed = await scene.lakefs.commit_files(scene.repository, MAIN, files)
        second = await scene.ended(await scene.start(module, ref=changed))
        assert second.status is WorkflowStatus.COMPLETED, worker.screen
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
    said = await scene.lakefs.objects.read(scene.repository, MAIN, "data/out.txt")
    assert said.decode() == f"{published.commit} ('b.txt',) () ('a.txt',)"


async def test_the_kit_answers_from_real_servers(env: PeragoEnvironment) -> None:
    """Its task functions run in the event loop, so the answer comes from another one."""
    SEEN.clear()
    repository = await env.repository(files=FILES)
    await env.run(index, repository)
    published = (await repository.head()).commit
    await repository.commit({"data/a": "2", "data/b": None})
    await env.assert_completed(await env.run(index, repository))
    assert [None, Changes(published, (), ("a",), ("b",))] == SEEN


async def test_a_key_in_the_code_version_does_not_reach_a_commit(
    scene: WorkerScene,
) -> None:
    module = await scene.declare("(workspace / 'out.txt').write_text('x')", workspace=True)
    key = scene.servers[0].secret_access_key
    async with scene.polling_worker([module], PERAGO_CODE_VERSION=f"v1:{key}") as worker:
        ended = await scene.ended(await scene.start(module))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
    head = await scene.lakefs.branches.head(scene.repository, MAIN)
    assert head.metadata["perago.code_version"] == "v1:***"
    assert key not in str(head)
