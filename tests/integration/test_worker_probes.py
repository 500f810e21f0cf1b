"""Probes in each state of a worker, metrics by name, and a circuit that opens and closes."""

import asyncio
import signal
import urllib.error
import urllib.request

import pytest
from tests.integration.worker_scene import WorkerScene

from perago.domain.attempt import WorkflowStatus
from perago_servers import ToxiproxyServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
SLOW_IMPORT = "import sys, time\nif 'executor_process' in sys.argv[0]:\n    time.sleep(3)\n"
METRICS = (
    "runtime_task_attempt_duration_seconds_count",
    "runtime_workspace_io_duration_seconds_count",
    "runtime_workspace_io_bytes_count",
    "runtime_busy_slots",
    "runtime_task_attempts_total",
    "runtime_queue_wait_seconds_count",
    "runtime_attempt_fence_verdicts_total",
    "runtime_publications_total",
    "runtime_executor_events_total",
)


async def probed(address: str, path: str) -> tuple[int, str]:
    """Status and text of one path; 0 when nothing listens."""
    return await asyncio.to_thread(_get, address, path)


def _get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


async def probes(address: str) -> dict[str, int]:
    """The status of each probe."""
    return {
        path: (await probed(address, f"/{path}"))[0] for path in ("livez", "readyz", "startupz")
    }


async def until(address: str, **expected: int) -> None:
    """Wait for the probes to say this."""
    found: dict[str, int] = {}
    for _ in range(300):
        found = await probes(address)
        if found == expected:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{found}, expected {expected}")


async def test_probes_tell_starting_running_and_draining(scene: WorkerScene, address: str) -> None:
    module = await scene.declare("time.sleep(params.seconds)", before=SLOW_IMPORT)
    async with scene.worker([module], PERAGO_PROBE_ADDRESS=address) as worker:
        await until(address, livez=200, readyz=503, startupz=503)
        await until(address, livez=200, readyz=200, startupz=200)
        workflow = await scene.start(module, seconds=3)
        await scene.started(workflow)
        worker.signal(signal.SIGTERM)
        await until(address, livez=200, readyz=503, startupz=200)
        assert await worker.exit_code() == 0
    assert await probes(address) == {"livez": 0, "readyz": 0, "startupz": 0}


async def test_metrics_have_their_names(scene: WorkerScene, address: str) -> None:
    module = await scene.declare('(workspace / "b.txt").write_text("b")', workspace=True)
    async with scene.polling_worker([module], PERAGO_PROBE_ADDRESS=address):
        await scene.ended(await scene.start(module))
        status, text = 0, ""
        for _ in range(100):
            status, text = await probed(address, "/metrics")
            if "runtime_task_attempts_total" in text:
                break
            await asyncio.sleep(0.05)
    assert status == 200
    assert [name for name in METRICS if f"\n{name}" not in text] == []
    assert f'task_name="{module.name}"' in text
    assert 'status="COMPLETED"' in text


async def test_a_conductor_that_fails_is_left_alone_until_it_answers_again(
    scene: WorkerScene, address: str, toxiproxy: ToxiproxyServer
) -> None:
    module = await scene.declare()
    _, conductor = scene.servers
    with toxiproxy.proxied(conductor.api_url.removesuffix("/api")) as proxy:
        more = {"CONDUCTOR_SERVER_URL": f"{proxy.endpoint}/api", "PERAGO_PROBE_ADDRESS": address}
        async with scene.polling_worker([module], root=None, **more) as worker:
            await until(address, livez=200, readyz=200, startupz=200)
            proxy.set_enabled(enabled=False)
            await until(address, livez=200, readyz=503, startupz=200)
            opened = await worker.has("circuit open: conductor")
            assert opened["pause_seconds"] <= 0.5
            proxy.set_enabled(enabled=True)
            await until(address, livez=200, readyz=200, startupz=200)
            ended = await scene.ended(await scene.start(module))
            assert ended.status is WorkflowStatus.COMPLETED
