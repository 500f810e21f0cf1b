"""A worker that is told to end while a workspace is still on its way over a slow line."""

import asyncio
import signal
import time

import pytest
from tests.integration.worker_scene import RunningWorker, WorkerScene

from perago.domain.attempt import AttemptStatus
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ToxiproxyServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
BUSY_SECONDS = 10.0  # what may be added to a promise when two cores are shared with everybody
GRACE_SECONDS = 2
KIB_PER_SECOND = 40
KIB = 1024


async def until_parts_arrive(worker: RunningWorker) -> None:
    """Wait until bytes are on the disk, whole files or not."""
    for _ in range(600):
        arrived = (worker.folder / "workspaces").rglob("large*")
        parts = (worker.folder / "workspaces").rglob(".perago-part-*")
        if any(path.is_file() for path in (*arrived, *parts)):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(worker.screen)


@pytest.mark.parametrize(
    ("number", "size"),
    [(200, 100 * KIB), (8, 16 * 1024 * KIB)],
    ids=["many at once", "each takes minutes"],
)
@pytest.mark.parametrize("signals", [1, 2], ids=["drained", "aborted"])
async def test_a_slow_download_does_not_keep_a_worker_alive(
    scene: WorkerScene, toxiproxy: ToxiproxyServer, number: int, size: int, signals: int
) -> None:
    files = {f"data/large{each}": b"%03d." % each * (size // 4) for each in range(number)}
    commit = await scene.lakefs.commit_files(scene.repository, MAIN, files)
    module = await scene.declare("pass", workspace=True)
    lakefs, _ = scene.servers
    with toxiproxy.proxied(lakefs.endpoint) as proxy:
        more = {
            "LAKECTL_SERVER_ENDPOINT_URL": proxy.endpoint,
            "PERAGO_SHUTDOWN_FORCE_KILL_AFTER": f"{GRACE_SECONDS}s",
        }
        async with scene.polling_worker([module], root=None, **more) as worker:
            proxy.add_toxic("bandwidth", rate=KIB_PER_SECOND)
            workflow = await scene.start(module, ref=commit)
            await until_parts_arrive(worker)
            began = time.monotonic()
            worker.signal(signal.SIGTERM)
            if signals == 2:
                await worker.has("worker draining")
                worker.signal(signal.SIGTERM)
            code = await worker.exit_code()
            assert time.monotonic() - began < GRACE_SECONDS + BUSY_SECONDS
    record = await scene.conductor.workflows.read(workflow)
    assert record is not None
    first = record.attempts[0]
    if signals == 1:
        assert code == 0
        assert first.snapshot.status is AttemptStatus.SCHEDULED
        assert "worker draining" in str(first.reason)
        assert len(record.attempts) == 1
    else:
        assert code == 128 + signal.SIGTERM
    await scene.conductor.workflows.terminate(workflow, "over")
