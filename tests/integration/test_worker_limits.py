"""The shortest leases, bodies that are too slow, and a service manager that wants to hear."""

import asyncio
import signal
import socket
import time

import pytest
from tests.integration.worker_chaos import is_alive, send
from tests.integration.worker_scene import WorkerScene, process_file

from perago.domain.attempt import WorkflowStatus

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
BUSY_SECONDS = 10.0  # what may be added to a promise when two cores are shared with everybody


async def test_a_response_time_out_of_one_second_is_kept_for_as_long_as_a_body_runs(
    scene: WorkerScene,
) -> None:
    module = await scene.declare("time.sleep(params.seconds)", response=1)
    async with scene.polling_worker([module]) as worker:
        ended = await scene.ended(await scene.start(module, seconds=4))  # four leases
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen


async def test_a_body_beyond_its_limit_is_ended_and_its_attempt_failed(scene: WorkerScene) -> None:
    module = await scene.declare(
        "time.sleep(params.seconds if params.number == 0 else 0)", workspace=True, limit=1
    )
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module, seconds=600)
        end = await worker.has("attempt ended")
        assert (end["status"], end["reason"]) == (
            "FAILED",
            "the task function ran longer than 1 seconds",
        )
        await scene.conductor.workflows.terminate(workflow, "over")
        # The slot has a new executor.
        after = await scene.ended(await scene.start(module, number=1))
        assert after.status is WorkflowStatus.COMPLETED


async def test_a_service_manager_hears_of_readiness_life_and_the_end(scene: WorkerScene) -> None:
    module = await scene.declare()
    name = scene.conductor.unique("perago-notices")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(f"\0{name}")
        notices.settimeout(30)
        async with scene.worker([module], NOTIFY_SOCKET=f"@{name}", WATCHDOG_USEC="9") as worker:
            heard = [await asyncio.to_thread(notices.recv, 100) for _ in range(3)]
            assert sorted(heard) == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            (executor,) = worker.executors()
            assert name not in process_file(executor, "environ"), "a body could speak for us"
            worker.signal(signal.SIGTERM)
            assert await worker.exit_code() == 0
            while heard[-1] == b"WATCHDOG=1":
                heard.append(await asyncio.to_thread(notices.recv, 100))
            assert heard[-1] == b"STOPPING=1"


async def test_other_users_cannot_read_workspaces_and_their_cache(scene: WorkerScene) -> None:
    module = await scene.declare("assert (workspace / 'a.txt').exists()", workspace=True)
    async with scene.polling_worker([module]) as worker:
        assert (await scene.ended(await scene.start(module))).status is WorkflowStatus.COMPLETED
        roots = [path for path in worker.folder.iterdir() if path.is_dir()]
        assert {"workspaces", "logs"} <= {path.name for path in roots}
        found = [path for root in roots for path in (root, *root.rglob("*")) if path.is_dir()]
        assert [path for path in found if path.stat().st_mode & 0o077] == []


async def test_a_signal_before_executors_are_ready_ends_the_worker_at_once(
    scene: WorkerScene,
) -> None:
    slow = "import sys, time\nif 'executor_process' in sys.argv[0]:\n    time.sleep(100)\n"
    module = await scene.declare(before=slow)
    async with scene.worker([module], "-j", "2") as worker:
        for _ in range(600):
            if len(executors := worker.executors()) == 2:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail(worker.screen)
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0, worker.screen
        assert time.monotonic() - began < 5 + BUSY_SECONDS
        assert worker.events("worker stopped before it was ready")
    assert [pid for pid in executors if is_alive(pid)] == []


async def test_after_idle_executors_were_killed_everything_ends_and_a_signal_drains(
    scene: WorkerScene,
) -> None:
    module = await scene.declare("time.sleep(params.seconds)", response=3)
    async with scene.polling_worker([module], "-j", "3") as worker:
        for pid in (killed := worker.executors()):
            send(pid, signal.SIGKILL)
        for _ in range(600):
            if len(worker.executors()) == 3 and not set(killed) & set(worker.executors()):
                break
            await asyncio.sleep(0.05)
        long = await scene.start(module, seconds=2)
        short = [await scene.start(module) for _ in range(8)]
        for workflow in (long, *short):
            assert (await scene.ended(workflow)).status is WorkflowStatus.COMPLETED, worker.screen
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0, worker.screen
