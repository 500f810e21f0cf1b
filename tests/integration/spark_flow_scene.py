"""Three Spark tasks under `perago start`, with a worker, an executor and a task killed.

The short form runs in the gate, the gigabyte in the soak. Bytes of the worker are those that it
asks lakeFS's API for; Spark asks the S3 gateway of the same server.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.counted_bytes import CountedBytes, counted
from tests.integration.worker_chaos import is_alive
from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene, process_file
from tests.spark_flow import BYTES_A_ROW, FromSpark, check_tables
from tests.spark_scene import gateway_of

from perago.adapters.spark.jars import repository_options
from perago.app.authoring.task_declaration import load_module_task
from perago.app.authoring.task_definition import build_taskdef
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.lakefs import CommitId
from perago.domain.names import STAGING_BRANCH_PREFIX
from perago.ports.conductor import WorkflowRecord
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN

ROOT = Path(__file__).parents[2]
STEPS = ("ingest", "clean", "total")
WORKER_SHARE_MAX = 0.01
LAST_WORDS_SECONDS = 30
BEGUN_SECONDS = 240
MODULE = """
from pathlib import Path
from tests import spark_flow
from perago import RetryPolicy, SparkWorkspace, TaskControls, TimeoutPolicy, WorkspaceSpec, task

@task(
    name={name!r},
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="lake"),
    controls=TaskControls(
        retry=RetryPolicy(count={retries}, delay_seconds=0),
        timeout=TimeoutPolicy(response_seconds=10),
    ),
)
def body(workspace: SparkWorkspace, params: spark_flow.Params) -> spark_flow.Rows:
    return spark_flow.{step}(workspace, params, Path({marks!r}))
"""


@dataclass(frozen=True, slots=True)
class Told:
    """Figures of one run."""

    stored: int
    worker_bytes: int
    seen_at_kill: int

    @property
    def share(self) -> float:
        """What the worker moved of what the tasks wrote."""
        return self.worker_bytes / self.stored


@dataclass(frozen=True, slots=True)
class SparkFlow:
    """The workflow on its servers."""

    scene: WorkerScene
    modules: tuple[TaskModule, ...]
    api: CountedBytes

    async def launch(self) -> RunningWorker:
        """Start `perago start` for the three tasks, each time on the same disk."""
        root = self.scene.folder / "root"
        return await self.scene.launch(
            self.modules, root=root, **spark_environment(self.scene, self.api)
        )


def spark_environment(scene: WorkerScene, api: CountedBytes | None = None) -> dict[str, str]:
    """Executors of their own on this machine; lakeFS through the counter, where there is one."""
    endpoint = scene.servers[0].endpoint if api is None else api.endpoint
    return {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "LAKECTL_SERVER_ENDPOINT_URL": endpoint,
        "PERAGO_SPARK_MASTER": "local-cluster[2,1,1024]",
        "PERAGO_SPARK_CONF_spark_driver_bindAddress": "127.0.0.1",
        "PERAGO_SPARK_CONF_spark_driver_host": "127.0.0.1",
        "PERAGO_SPARK_CONF_spark_driver_memory": "1g",
        "PERAGO_SPARK_CONF_spark_sql_shuffle_partitions": "4",
    }


async def survive_every_kill(scene: WorkerScene, session: FromSpark, *, rows: int) -> Told:
    """The whole scene: three publications, each table right, hardly a byte through the worker."""
    with counted(scene.servers[0].endpoint, only=b" /api/") as api:
        flow = SparkFlow(scene, await declare_steps(scene, STEPS), api)
        fenced = await scene.lakefs.install_fence(scene.repository)
        workflow = await start_steps(scene, flow.modules, fenced, rows=rows)
        worker = await flow.launch()
        seen = 0
        try:
            seen = await _half_written(scene, worker)
            await _kill_worker(worker)
            worker = await flow.launch()
            record = await scene.ended(workflow, seconds_max=1500)
            _check_attempts(record, flow)
            _check_secrets(scene, worker)
            worker.signal(signal.SIGTERM)
            assert await worker.exit_code() == 0, worker.screen
        finally:
            if worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()
    stored = await _check_target(scene, fenced)
    marks = {path.name for path in (scene.folder / "marks").iterdir()}
    assert marks == {"ingest-begun", "executor-killed", "task-killed"}
    told = Told(stored, api.bytes, seen)
    assert stored > rows * BYTES_A_ROW * 0.8
    assert told.share < WORKER_SHARE_MAX, told
    await asyncio.to_thread(_check_rows, scene, session, rows)
    return told


def _check_rows(scene: WorkerScene, session: FromSpark, rows: int) -> None:
    hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no other way
    options = repository_options(scene.repository, gateway_of(scene.servers[0]))
    for name, value in options.items():
        hadoop.set(name, value)
    check_tables(session, f"s3a://{scene.repository}/main/lake", rows)


async def declare_steps(
    scene: WorkerScene, steps: Sequence[str], *, retries: int = 3
) -> tuple[TaskModule, ...]:
    """Write one module a step, put the TaskDefs on Conductor."""
    marks = scene.folder / "marks"
    marks.mkdir()
    modules: list[TaskModule] = []
    for step in steps:
        name = scene.conductor.unique(f"spark_{step}")
        text = MODULE.format(name=name, step=step, marks=str(marks), retries=retries)
        path = scene.folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        modules.append(TaskModule(name, path, has_workspace=True))
    sys.path.insert(0, str(scene.folder))
    try:
        for module in modules:
            await scene.conductor.definitions.put(build_taskdef(load_module_task(module.name)))
    finally:
        sys.path.remove(str(scene.folder))
    return tuple(modules)


async def start_steps(
    scene: WorkerScene, modules: Sequence[TaskModule], fenced: CommitId, *, rows: int
) -> str:
    """Start a workflow of these tasks, each on what the one before it published."""
    place = {"repository": scene.repository, "branch": MAIN, "refType": "commit"}
    tasks: list[dict[str, object]] = []
    workspace: object = {**place, "ref": fenced}
    for module in modules:
        name = module.name
        given = {"workspace": workspace, "params": {"rows": rows}}
        tasks.append(simple(name, name, given))
        workspace = f"${{{name}.output.workspace}}"
    name = f"flow_{modules[0].name}"
    await scene.conductor.workflows.put_definition(workflow_of(name, *tasks))
    return await scene.conductor.workflows.start(name, {})


async def _half_written(scene: WorkerScene, worker: RunningWorker) -> int:
    """Wait until objects of the first task are on its private branch; how many."""
    lakefs = scene.lakefs
    for _ in range(BEGUN_SECONDS * 10):
        assert worker.process.returncode is None, worker.screen
        # Not every private branch: a canary that has ended is deleted between the two requests.
        listed = await lakefs.branches.list_page(
            scene.repository, STAGING_BRANCH_PREFIX, show_hidden=True
        )
        for name, _ in listed.items:
            page = await lakefs.commits.uncommitted_page(scene.repository, name)
            if written := [change.path for change in page.items if "lake/orders/" in change.path]:
                return len(written)
        await asyncio.sleep(0.1)
    raise AssertionError(f"nothing was written: {worker.screen}")


async def _kill_worker(worker: RunningWorker) -> None:
    """SIGKILL the parent; its executors and every JVM of theirs go with it."""
    below = descendants(worker.pid)
    assert any("java" in program_of(pid) for pid in below), "no JVM to outlive its worker"
    worker.signal(signal.SIGKILL)
    await worker.exit_code()
    for _ in range(LAST_WORDS_SECONDS * 10):
        if not any(is_alive(pid) for pid in below):
            return
        await asyncio.sleep(0.1)
    left = [(pid, program_of(pid)) for pid in below if is_alive(pid)]
    raise AssertionError(f"processes outlive their worker: {left}")


def descendants(pid: int) -> list[int]:
    """Every process below one."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                status = process_file(int(directory.name), "status")
            except (FileNotFoundError, ProcessLookupError):
                continue
            parent = int(status.partition("PPid:")[2].split()[0])
            children.setdefault(parent, []).append(int(directory.name))
    found, queue = list[int](), [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def program_of(pid: int) -> str:
    """The name of its program, or nothing when it is gone."""
    try:
        return os.path.basename(process_file(pid, "cmdline").split("\0")[0])  # noqa: PTH119
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _check_attempts(record: WorkflowRecord, flow: SparkFlow) -> None:
    """The row of the dead worker was handed back and polled again; Spark repaired the rest."""
    assert record.status is WorkflowStatus.COMPLETED, record.reason
    ended = [(row.snapshot.task_type, row.snapshot.status) for row in record.attempts]
    polls = [row.snapshot.poll_count for row in record.attempts]
    ingest, clean, total = [module.name for module in flow.modules]
    assert ended == [
        (ingest, AttemptStatus.COMPLETED),
        (clean, AttemptStatus.COMPLETED),
        (total, AttemptStatus.COMPLETED),
    ]
    assert polls == [2, 1, 1]


def _check_secrets(scene: WorkerScene, worker: RunningWorker) -> None:
    """No log of ours and no line of Spark's on the screen holds the secret key."""
    logs = (worker.folder / "logs").rglob("*.jsonl")
    for text in (worker.screen, *(path.read_text(encoding="utf-8") for path in logs)):
        assert scene.servers[0].secret_access_key not in text


async def _check_target(scene: WorkerScene, fenced: CommitId) -> int:
    """Three commits of Parquet and nothing else; the lost attempt's branch is collected."""
    lakefs, repository = scene.lakefs, scene.repository
    walk = await lakefs.commits.first_parents(repository, MAIN, fenced, commits_max=10)
    assert len(walk.above) == len(STEPS)
    listed = await lakefs.objects.list_page(repository, MAIN, prefix="lake/")
    assert all(entry.path.endswith(".parquet") for entry in listed.items)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "perago", "gc", repository, "--older-than", "0s"),
        cwd=scene.folder,
        env=scene.environment(scene.folder / "root"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    assert (await lakefs.branches.list_page(repository, "perago-", show_hidden=True)).items == ()
    return sum(entry.size for entry in listed.items)
