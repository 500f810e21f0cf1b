"""Workers as their users start them: `perago start` as a process, on a real Conductor and lakeFS.

Task modules are written to a folder of the test, under names that no other test uses.
"""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.real_conductor import RealConductor
from tests.contract.real_conductor import connected as connected_conductor
from tests.contract.real_lakefs import RealLakeFS
from tests.contract.real_lakefs import connected as connected_lakefs

from perago.app.authoring.task_declaration import load_module_task
from perago.app.authoring.task_definition import build_taskdef
from perago.domain.attempt import WorkflowStatus
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.conductor import WorkflowRecord
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

SOURCE = Path(__file__).parents[2] / "src"
MODULE = """
import os, sys, time
from pathlib import Path
from pydantic import BaseModel
from perago import PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy, WorkspaceSpec, task

class Params(BaseModel):
    number: int = 0
    seconds: float = 0

class Result(BaseModel):
    number: int

@task(
    name={name!r},
    owner_email="data@example.com",
    {workspace}
    controls=TaskControls(
        retry=RetryPolicy(count=10, delay_seconds=0),
        timeout=TimeoutPolicy(response_seconds={response}),
        body_seconds={limit},
        publish_budget={budget},
    ),
)
def body({arguments}) -> Result:
{body}
    return Result(number=params.number)
"""
BEATING_EACH_SECOND = """PublishBudget(
    observed_merge_p99_seconds=1,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=60,
    conductor_completion_timeout_seconds=60,
    worker_shutdown_grace_seconds=30,
    heartbeat_interval_seconds=1,
)"""
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TaskModule:
    """A task module on disk; its name is also the task's and the workflow's."""

    name: str
    path: Path
    has_workspace: bool


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """One `perago start`."""

    process: asyncio.subprocess.Process
    folder: Path

    @property
    def pid(self) -> int:
        """Number of the parent."""
        return self.process.pid

    @property
    def screen(self) -> str:
        """What it wrote to standard error."""
        return (self.folder / "stderr").read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """Its JSON log."""
        return [
            json.loads(line)
            for path in (self.folder / "logs").rglob("*.jsonl")
            for line in path.read_text(encoding="utf-8").splitlines()
        ]

    def events(self, event: str) -> list[dict[str, Any]]:
        """Lines of one event."""
        return [line for line in self.lines() if line["event"] == event]

    async def has(self, event: str, *, seconds_max: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait for a line of an event."""
        for _ in range(int(seconds_max / 0.05)):
            if found := self.events(event):
                return found[0]
            assert self.process.returncode is None, self.screen
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {event!r} in {self.screen}")

    def executors(self) -> list[int]:
        """Executors that live now."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in children.split()]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the parent."""
        self.process.send_signal(number)

    async def exit_code(self, *, seconds_max: float = WAIT_SECONDS) -> int:
        """Wait for its end."""
        return await asyncio.wait_for(self.process.wait(), seconds_max)


@dataclass(frozen=True, slots=True)
class WorkerScene:
    """Two servers, a repository, and a folder for modules and roots."""

    lakefs: RealLakeFS
    conductor: RealConductor
    servers: tuple[LakefsServer, ConductorServer]
    repository: RepositoryId
    start_commit: CommitId
    folder: Path
    executable: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    async def declare(
        self,
        body: str = "pass",
        *,
        workspace: bool = False,
        response: int = 30,
        limit: int = 0,
        budget: str = "None",
        before: str = "",
        checks: str = "[]",
    ) -> TaskModule:
        """Write a module, register its task and a workflow of that one task."""
        name = self.conductor.unique("worker_task")
        spec = f'workspace=WorkspaceSpec(prefix="data", checks={checks}),'
        text = MODULE.format(
            name=name,
            workspace=spec if workspace else "",
            response=response,
            limit=limit,
            budget=budget,
            arguments="workspace: Path, params: Params" if workspace else "params: Params",
            body=textwrap.indent(textwrap.dedent(body), "    "),
        )
        path = self.folder / f"{name}.py"
        path.write_text(before + text, encoding="utf-8")
        sys.path.insert(0, str(self.folder))
        try:
            taskdef = build_taskdef(load_module_task(name))
        finally:
            sys.path.remove(str(self.folder))
        await self.conductor.definitions.put(taskdef)
        given = {"params": "${workflow.input.params}", "workspace": "${workflow.input.workspace}"}
        given["traceparent"] = "${workflow.input.traceparent}"
        definition = workflow_of(name, simple(name, "only", given))
        await self.conductor.workflows.put_definition(definition)
        return TaskModule(name, path, workspace)

    async def start(
        self,
        module: TaskModule,
        *,
        branch: BranchName = MAIN,
        ref: CommitId | None = None,
        domain: str | None = None,
        traceparent: str | None = None,
        **params: object,
    ) -> str:
        """Start a workflow; its id."""
        given: dict[str, object] = {"params": params, "traceparent": traceparent}
        if module.has_workspace:
            given["workspace"] = {
                "repository": self.repository,
                "branch": branch,
                "refType": "commit",
                "ref": ref or self.start_commit,
            }
        domains = {} if domain is None else {module.name: domain}
        return await self.conductor.workflows.start(module.name, given, task_to_domain=domains)

    async def ended(self, workflow_id: str, *, seconds_max: float = WAIT_SECONDS) -> WorkflowRecord:
        """Wait for a workflow's end, with due time-outs applied."""
        for _ in range(int(seconds_max / 0.1)):
            workflow = await self.conductor.workflows.read(workflow_id)
            assert workflow is not None
            if workflow.status is not WorkflowStatus.RUNNING:
                return workflow
            await asyncio.sleep(0.1)
            await self.conductor.workflows.decide(workflow_id)
        raise AssertionError(f"{workflow_id} is still running")

    async def started(self, workflow_id: str, *, seconds_max: float = WAIT_SECONDS) -> str:
        """Wait until the newest attempt is in progress; its worker."""
        for _ in range(int(seconds_max / 0.05)):
            workflow = await self.conductor.workflows.read(workflow_id)
            assert workflow is not None
            newest = workflow.attempts[-1].snapshot
            if newest.worker_id is not None and newest.status == "IN_PROGRESS":
                return newest.worker_id
            await asyncio.sleep(0.05)
        raise AssertionError(f"{workflow_id} was not begun")

    def environment(self, root: Path, **more: str) -> dict[str, str]:
        """The environment of a worker whose files are below `root`."""
        lakefs, conductor = self.servers
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")
        }
        return inherited | {
            "PYTHONPATH": str(SOURCE),
            "CONDUCTOR_SERVER_URL": conductor.api_url,
            "LAKECTL_SERVER_ENDPOINT_URL": lakefs.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs.secret_access_key,
            "PERAGO_WORKSPACE_ROOT": str(root / "workspaces"),
            "PERAGO_LOG_ROOT": str(root / "logs"),
            **self.variables,
            **more,
        }

    async def launch(
        self, modules: Sequence[TaskModule], *options: str, root: Path | None = None, **more: str
    ) -> RunningWorker:
        """Start a worker; the caller ends it."""
        root = self.folder / self.conductor.unique("root") if root is None else root
        root.mkdir(exist_ok=True)
        with (root / "stderr").open("a", encoding="utf-8") as screen:
            process = await asyncio.create_subprocess_exec(
                self.executable,
                *("-m", "perago", "start", *(each.name for each in modules), *options),
                cwd=self.folder,
                env=self.environment(root, **more),
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )
        return RunningWorker(process, root)

    @asynccontextmanager
    async def worker(
        self, modules: Sequence[TaskModule], *options: str, root: Path | None = None, **more: str
    ) -> AsyncGenerator[RunningWorker]:
        """A worker for the block; killed when the block leaves it running."""
        worker = await self.launch(modules, *options, root=root, **more)
        try:
            yield worker
        finally:
            if worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()

    @asynccontextmanager
    async def polling_worker(
        self, modules: Sequence[TaskModule], *options: str, root: Path | None = None, **more: str
    ) -> AsyncGenerator[RunningWorker]:
        """A worker that has begun to poll."""
        async with self.worker(modules, *options, root=root, **more) as worker:
            await worker.has("worker started")
            yield worker


@asynccontextmanager
async def worker_scene(
    servers: tuple[LakefsServer, ConductorServer], folder: Path
) -> AsyncGenerator[WorkerScene]:
    """The scene on two servers, with a repository that has one file."""
    lakefs_server, conductor_server = servers
    async with (
        connected_lakefs(lakefs_server) as lakefs,
        connected_conductor(conductor_server) as conductor,
    ):
        repository = await lakefs.create_repository()
        start = await lakefs.commit_files(repository, MAIN, {"data/a.txt": b"a"})
        yield WorkerScene(lakefs, conductor, servers, repository, start, folder)


def process_file(pid: int, name: str) -> str:
    """What the operating system shows of a process."""
    return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
