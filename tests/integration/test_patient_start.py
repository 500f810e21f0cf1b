"""`perago start` while Conductor is away: it lives, is not ready, says why, and then works."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.integration.test_worker_probes import probed, until
from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene

from perago.app.attempt.patience import PAUSE_SECONDS_MAX
from perago.domain.attempt import WorkflowStatus

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
BUSY_SECONDS = 10.0  # what may be added to a promise when two cores are shared with everybody


@asynccontextmanager
async def waiting_worker(
    scene: WorkerScene, module: TaskModule, address: str, **more: str
) -> AsyncGenerator[tuple[RunningWorker, OutageProxy]]:
    """A worker that has begun to wait for a Conductor that refuses connections."""
    _, conductor = scene.servers
    async with outage_proxy(conductor.endpoint) as proxy:
        proxy.leave()
        more |= {"CONDUCTOR_SERVER_URL": f"{proxy.endpoint}/api", "PERAGO_PROBE_ADDRESS": address}
        async with scene.worker([module], root=None, **more) as worker:
            await worker.has("worker waiting")
            yield worker, proxy


async def test_a_start_waits_for_conductor_and_then_works(scene: WorkerScene, address: str) -> None:
    module = await scene.declare()
    workflow = await scene.start(module)
    async with waiting_worker(scene, module, address) as (worker, proxy):
        # Longer than a loop may stand still before it counts as dead.
        began = time.monotonic()
        while time.monotonic() - began < 17:
            await until(address, livez=200, readyz=503, startupz=200)
        _, said = await probed(address, "/readyz")
        assert "the start of this worker waits for Conductor" in said
        assert "worker waiting" in worker.screen
        await proxy.come_back()
        await until(address, livez=200, readyz=200, startupz=200)
        assert (await scene.ended(workflow)).status is WorkflowStatus.COMPLETED
        waited = await worker.has("worker waited")
        assert waited["waited_seconds"] > 17
        _, metrics = await probed(address, "/metrics")
        assert 'runtime_service_wait_seconds_count{service="Conductor",task_name=""} 1' in metrics


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "swallows"])
async def test_a_signal_ends_the_wait_at_once_with_the_exit_code_of_a_stop(
    scene: WorkerScene, address: str, *, silent: bool
) -> None:
    module = await scene.declare()
    async with waiting_worker(scene, module, address) as (worker, proxy):
        if silent:
            await proxy.come_back()
            proxy.fall_silent()
            await asyncio.sleep(PAUSE_SECONDS_MAX + 1)  # a request is under way
        worker.signal(signal.SIGTERM)
        began = time.monotonic()
        assert await worker.exit_code() == 0, worker.screen
        assert time.monotonic() - began < 3 + BUSY_SECONDS
        assert worker.events("worker stopped before it was ready")


async def test_patience_that_is_over_ends_the_start_as_a_conductor_that_is_not_there(
    scene: WorkerScene, address: str
) -> None:
    module = await scene.declare()
    # Chance decides when it asks again. A wait is reported at a failure after its first second, and
    # no pause is longer than 5 s, so that within 7 s there is such a failure in any case.
    async with waiting_worker(scene, module, address, PERAGO_PATIENCE="7s") as (worker, _):
        assert await worker.exit_code() == 1
        assert "error: failed to validate Conductor TaskDef: " in worker.screen
        assert "waited 7 s for Conductor, until PERAGO_PATIENCE was over" in worker.screen
        assert "PRG-L008: `perago config show --origin`" in worker.screen
