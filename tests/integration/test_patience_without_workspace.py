"""A join and a task without a workspace on real servers: an outage of 20 s costs no second row."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.integration.outages import written
from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene

from perago.app.runs.finish import BUILT_IN
from perago.domain.attempt import WorkflowStatus
from perago.ports.conductor import WorkflowRecord
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(180)]
AWAY_SECONDS = 20.0
BUSY_SECONDS = 60.0
COMPLETION = r'"status": ?"COMPLETED"'
WALK = r"GET [^ ]*/refs/[0-9a-f]{64}/commits"
METRIC = 'runtime_service_wait_seconds_count{{service="{service}",task_name="{task}"}}'
BODY = """
with open({runs!r}, "a") as file:
    file.write("run\\n")
time.sleep(params.seconds)
"""


@pytest.fixture
def address() -> str:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def _page(address: str, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


async def _says(address: str, path: str, text: str) -> None:
    async with asyncio.timeout(AWAY_SECONDS):
        while text not in await asyncio.to_thread(_page, address, path):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)


def _leaving(proxy: OutageProxy, left: asyncio.Event) -> Callable[[], None]:
    def leave() -> None:
        proxy.leave()
        left.set()

    return leave


async def _outage(proxy: OutageProxy, left: asyncio.Event, address: str, service: str) -> None:
    """Wait until the service is away; /readyz says it; it comes back."""
    async with asyncio.timeout(60):
        await left.wait()
    await _says(address, "readyz", f"attempts that wait for {service}: 1")
    await asyncio.sleep(AWAY_SECONDS)
    await proxy.come_back()


async def _assert_one_row_that_says_it(
    scene: WorkerScene, worker: RunningWorker, record: WorkflowRecord, service: str
) -> None:
    """One row that was polled once; the log of the worker and of the task have the wait."""
    assert record.status is WorkflowStatus.COMPLETED, worker.screen
    (row,) = record.attempts
    assert (row.snapshot.retry_count, row.snapshot.poll_count) == (0, 1)
    await worker.has("attempt ended")  # it may learn seconds later that its end had arrived
    (waiting,) = worker.events("attempt waiting")
    (waited,) = [line for line in worker.events("attempt waited") if line["lasted"]]
    assert waiting["service"] == waited["service"] == service
    assert waited["waited_seconds"] >= AWAY_SECONDS
    logged: list[str] = []
    async with asyncio.timeout(BUSY_SECONDS):
        while not any(f"s for {service}" in line for line in logged):
            await asyncio.sleep(0.1)
            logged = list(await scene.conductor.queue.read_log(row.snapshot.task_id))


@pytest.mark.parametrize(
    ("service", "request_of_it"),
    [
        pytest.param("lakeFS", WALK, id="lakeFS, in the walk"),
        pytest.param("Conductor", COMPLETION, id="Conductor, at the end", marks=pytest.mark.soak),
    ],
)
async def test_a_join_waits_for_a_service_that_is_away(
    scene: WorkerScene, address: str, service: str, request_of_it: str
) -> None:
    module = await scene.declare(workspace=True)
    second = await scene.lakefs.commit_files(scene.repository, MAIN, {"data/b.txt": b"b"})
    workspaces = [
        {"repository": scene.repository, "branch": MAIN, "refType": "commit", "ref": ref}
        for ref in (scene.start_commit, second)
    ]
    name = await _joining(scene)
    left = asyncio.Event()
    async with _worker_through_a_proxy(scene, service, module, address) as (worker, proxy):
        proxy.when(request_of_it, _leaving(proxy, left))
        workflow = await scene.conductor.workflows.start(
            name, {"params": {"workspaces": workspaces}}
        )
        await _outage(proxy, left, address, service)
        record = await scene.ended(workflow, seconds_max=BUSY_SECONDS)
        await _assert_one_row_that_says_it(scene, worker, record, service)
        await _says(address, "metrics", METRIC.format(service=service, task="perago.join"))
        if service == "lakeFS":
            (opened,) = worker.events("circuit open: lakefs")
            assert opened["not_polled"] == [module.name, *(task.name for task in BUILT_IN)]
    assert record.output_data == {"workspace": workspaces[1]}


async def _joining(scene: WorkerScene) -> str:
    """The definition of a workflow with one join."""
    await scene.conductor.definitions.put(
        {"name": "perago.join", "ownerEmail": "data@example.com", "retryDelaySeconds": 0}
    )
    name = scene.conductor.unique("joining")
    row = simple("perago.join", "joined", {"params": "${workflow.input.params}"})
    output = {"workspace": "${joined.output.result.workspace}"}
    await scene.conductor.workflows.put_definition(workflow_of(name, row, outputParameters=output))
    return name


@asynccontextmanager
async def _worker_through_a_proxy(
    scene: WorkerScene, service: str, module: TaskModule, address: str
) -> AsyncGenerator[tuple[RunningWorker, OutageProxy]]:
    """A worker whose way to one service can be closed."""
    lakefs, conductor = scene.servers
    endpoint = lakefs.endpoint if service == "lakeFS" else conductor.endpoint
    async with outage_proxy(endpoint) as proxy:
        more = {"PERAGO_PROBE_ADDRESS": address}
        if service == "lakeFS":
            more["LAKECTL_SERVER_ENDPOINT_URL"] = proxy.endpoint
        else:
            more["CONDUCTOR_SERVER_URL"] = f"{proxy.endpoint}/api"
        async with scene.polling_worker([module], root=None, **more) as worker:
            yield worker, proxy


@pytest.mark.parametrize(
    "moment",
    ["at the completion", pytest.param("during the function", marks=pytest.mark.soak)],
)
async def test_the_outcome_of_a_task_without_a_workspace_reaches_a_conductor_that_was_away(
    scene: WorkerScene, address: str, tmp_path: Path, moment: str
) -> None:
    runs = tmp_path / "runs"
    module = await scene.declare(BODY.format(runs=str(runs)), response=60)
    left = asyncio.Event()
    async with _worker_through_a_proxy(scene, "Conductor", module, address) as (worker, proxy):
        leave = _leaving(proxy, left)
        if moment == "at the completion":
            proxy.when(COMPLETION, leave)
        workflow = await scene.start(module, number=7, seconds=2)
        if moment == "during the function":
            await written(runs)
            leave()
        await _outage(proxy, left, address, "Conductor")
        record = await scene.ended(workflow, seconds_max=BUSY_SECONDS)
        await _assert_one_row_that_says_it(scene, worker, record, "Conductor")
        await _says(address, "metrics", METRIC.format(service="Conductor", task=module.name))
    assert record.attempts[0].output_data == {"result": {"number": 7}}
    assert runs.read_text(encoding="utf-8") == "run\n"
