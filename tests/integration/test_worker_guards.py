"""What keeps a worker from burning retries: a lakeFS that fails, a full disk. And threads."""

import asyncio
import signal
import time

import pytest
from tests.integration.worker_scene import WorkerScene

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.lakefs import BranchName
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ToxiproxyServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
BUSY_SECONDS = 10.0  # what may be added to a promise when two cores are shared with everybody
LOOKS_SECONDS = 3.0


async def test_a_lakefs_that_fails_costs_no_attempt_and_nothing_more_is_polled_until_it_answers(
    scene: WorkerScene, toxiproxy: ToxiproxyServer
) -> None:
    module = await scene.declare('(workspace / "b.txt").write_text("b")', workspace=True)
    free = await scene.declare()
    lakefs, _ = scene.servers
    with toxiproxy.proxied(lakefs.endpoint) as proxy:
        more = {"LAKECTL_SERVER_ENDPOINT_URL": proxy.endpoint}
        # Two slots, because the attempt that waits for lakeFS keeps one.
        async with scene.polling_worker([module, free], "-j", "2", root=None, **more) as worker:
            proxy.set_enabled(enabled=False)
            workflow = await scene.start(module)
            opened = await worker.has("circuit open: lakefs")
            assert opened["pause_seconds"] <= 0.5
            await asyncio.sleep(LOOKS_SECONDS)
            record = await scene.conductor.workflows.read(workflow)
            assert record is not None
            failed = [row for row in record.attempts if row.snapshot.status is AttemptStatus.FAILED]
            assert failed == [], "the attempt waits: no retry is spent on a lakeFS that is away"
            # Tasks without a workspace need no lakeFS.
            assert (await scene.ended(await scene.start(free))).status is WorkflowStatus.COMPLETED
            proxy.set_enabled(enabled=True)
            ended = await scene.ended(workflow)
            assert ended.status is WorkflowStatus.COMPLETED, worker.screen
            assert len(ended.attempts) == 1


async def test_a_lakefs_that_fails_at_the_start_costs_no_attempt(
    scene: WorkerScene, toxiproxy: ToxiproxyServer
) -> None:
    module = await scene.declare('(workspace / "b.txt").write_text("b")', workspace=True)
    lakefs, _ = scene.servers
    workflow = await scene.start(module)
    with toxiproxy.proxied(lakefs.endpoint) as proxy:
        proxy.set_enabled(enabled=False)
        more = {"LAKECTL_SERVER_ENDPOINT_URL": proxy.endpoint}
        async with scene.polling_worker([module], root=None, **more) as worker:
            assert worker.events("circuit open: lakefs")
            await asyncio.sleep(LOOKS_SECONDS)
            record = await scene.conductor.workflows.read(workflow)
            assert record is not None
            assert record.attempts[0].snapshot.poll_count == 0
            proxy.set_enabled(enabled=True)
            ended = await scene.ended(workflow)
            assert ended.status is WorkflowStatus.COMPLETED, worker.screen
            assert len(ended.attempts) == 1


async def test_nothing_with_a_workspace_is_polled_while_the_disk_is_nearly_full(
    scene: WorkerScene,
) -> None:
    module = await scene.declare(workspace=True)
    free = await scene.declare()
    waiting = await scene.start(module)
    async with scene.polling_worker([module, free], PERAGO_DISK_FREE_MIN="1000000GB") as worker:
        warned = await worker.has("disk nearly full; polling no workspace tasks")
        assert warned["free_bytes"] < 10**15
        assert (await scene.ended(await scene.start(free))).status is WorkflowStatus.COMPLETED
        record = await scene.conductor.workflows.read(waiting)
        assert record is not None
        assert [row.snapshot.status for row in record.attempts] == [AttemptStatus.SCHEDULED]
        assert record.attempts[0].snapshot.poll_count == 0
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
    async with scene.polling_worker([module]):
        assert (await scene.ended(waiting)).status is WorkflowStatus.COMPLETED


async def test_a_worker_collects_the_garbage_of_repositories_it_saw_while_it_runs(
    scene: WorkerScene,
) -> None:
    branches = scene.lakefs.branches
    nobodys = BranchName("perago-staging-of-nobody")
    await branches.create(scene.repository, nobodys, scene.start_commit)
    module = await scene.declare("time.sleep(params.seconds)", workspace=True)
    more = {"PERAGO_WORKSPACE_GC_INTERVAL": "1s", "PERAGO_GC_STAGING_TTL": "0s"}
    async with scene.polling_worker([module], root=None, **more) as worker:
        workflow = await scene.start(module, seconds=4)
        # Its own directory and attempt live through the passes.
        assert (await scene.ended(workflow)).status is WorkflowStatus.COMPLETED, worker.screen
        collected = await worker.has("garbage-collected a repository")
        assert collected["removed"] == [nobodys]
        assert (await branches.list_page(scene.repository, "perago-", show_hidden=True)).items == ()
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0


async def test_threads_publish_and_a_body_that_never_ends_does_not_hold_up_the_end(
    scene: WorkerScene,
) -> None:
    module = await scene.declare(
        """
        print("in a thread")
        (workspace / "b.txt").write_text("b")
        time.sleep(params.seconds)
        """,
        workspace=True,
    )
    thread = ("--execution-mode", "thread", "-j", "2")
    grace = {"PERAGO_SHUTDOWN_FORCE_KILL_AFTER": "2s"}
    async with scene.polling_worker([module], *thread, root=None, **grace) as worker:
        assert worker.executors() == []
        published = await scene.ended(await scene.start(module))
        assert published.status is WorkflowStatus.COMPLETED, worker.screen
        head = await scene.lakefs.branches.head(scene.repository, MAIN)
        assert head.parents == (scene.start_commit,)
        (printed,) = worker.events("in a thread")
        assert printed["execution_id"] == head.metadata["perago.execution_id"]
        workflow = await scene.start(module, ref=head.commit, seconds=600)
        await scene.started(workflow)
        worker.signal(signal.SIGTERM)
        began = time.monotonic()
        assert await worker.exit_code() == 0, worker.screen
        assert time.monotonic() - began < 2 + BUSY_SECONDS
    record = await scene.conductor.workflows.read(workflow)
    assert record is not None
    assert "worker draining" in str(record.attempts[0].reason)
    await scene.conductor.workflows.terminate(workflow, "over")


async def test_the_start_tells_how_long_a_platform_has_to_wait(scene: WorkerScene) -> None:
    module = await scene.declare()
    async with scene.polling_worker([module], PERAGO_SHUTDOWN_FORCE_KILL_AFTER="7s") as worker:
        (started,) = worker.events("worker started")
        # The grace, a merge and a completion without a budget, a kill, and what is rounded away.
        assert started["termination_grace_period_seconds"] == 7 + 60 + 60 + 5 + 1
        assert '"termination_grace_period_seconds": 133' in worker.screen
