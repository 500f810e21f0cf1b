"""Attempts that publish at the same moment on a real lakeFS, with a Conductor that stops none.

The queue is the in-memory Conductor: to it every racer holds the attempt it was given, so that
only what lakeFS decides is seen.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, FenceWidth
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.objects import ObjectTransport
from perago.ports.task_body import BodyCall, BodyOutcome, BodyReturned, TaskBody
from perago.ports.workspace import Progress
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.servers import Surroundings

TASK = "race"


class Params(BaseModel):
    """No parameters."""


class Result(BaseModel):
    """Who computed this."""

    racer: int


def declare(spec: WorkspaceSpec) -> TaskDefinition:
    """A task whose body is given by the race."""

    @task(name=TASK, owner_email="data@example.com", workspace=spec)
    def race(workspace: Path, params: Params) -> Result:
        del workspace, params
        return Result(racer=0)

    return task_of(race)


@dataclass
class StartLine(TaskBody):
    """A body that writes its own bytes and waits until every racer is as far."""

    racer: int
    barrier: asyncio.Barrier
    file: str = "out.txt"

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Write, wait, go."""
        assert call.workspace is not None
        await asyncio.to_thread(self._write, call.workspace)
        await self.barrier.wait()
        return BodyReturned({"racer": self.racer})

    def _write(self, workspace: Path) -> None:
        (workspace / self.file).write_text(f"racer {self.racer} of {workspace.name}")


@dataclass
class Race:
    """One lakeFS, one in-memory Conductor, and workers made for each round."""

    lakefs: LakeFSInstallation
    root: Path
    policy: PolicySetting
    transport: ObjectTransport | None = None

    def __post_init__(self) -> None:
        self.conductor = MemoryConductor(VirtualClock())
        self.operator: ConductorInstallation = conductor_installation(
            self.conductor, WorkerHandle()
        )
        self.concurrency = AsyncioConcurrency()
        self.shared: AttemptWorker | None = None

    async def attempts(
        self, repository: RepositoryId, ref: CommitId, *, workflows: int, racers: int
    ) -> list[AttemptRecord]:
        """Start workflows, poll their attempts, and hand each out to as many racers."""
        row = simple(TASK, TASK, {"workspace": "${workflow.input.workspace}", "params": {}})
        await self.operator.workflows.put_definition(workflow_of("flow", row))
        place = {"repository": repository, "branch": "main", "refType": "commit", "ref": ref}
        for _ in range(workflows):
            await self.operator.workflows.start("flow", {"workspace": place})
        polled = await self.operator.queue.poll(PollRequest(TASK, "racer", count=workflows))
        return [polled[number % workflows] for number in range(racers)]

    async def run(
        self,
        records: Sequence[AttemptRecord],
        *,
        files: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[AttemptReport]:
        """Let all of them work on one prefix."""
        specs = [WorkspaceSpec(prefix="data")] * len(records)
        return await self.run_each(records, specs, files=files, progress=progress)

    async def run_each(
        self,
        records: Sequence[AttemptRecord],
        specs: Sequence[WorkspaceSpec],
        *,
        files: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[AttemptReport]:
        """Let all of them work; from the end of the body on nobody waits for anybody."""
        barrier = asyncio.Barrier(len(records))
        racers: list[asyncio.Task[AttemptReport]] = []
        for number, (record, spec) in enumerate(zip(records, specs, strict=True)):
            worker = self._worker(spec, number)
            file = files[number] if files else "out.txt"
            body = StartLine(number, barrier, file)
            harness = replace(worker.harness, body=body, progress=progress or worker.progress)
            racer = replace(worker, harness=harness)
            racers.append(asyncio.create_task(racer.run(record)))
        return await asyncio.gather(*racers)

    def _worker(self, spec: WorkspaceSpec, number: int) -> AttemptWorker:
        around = Surroundings(
            SystemClock(), self.root, SystemIdentities(), self.concurrency, transport=self.transport
        )
        settings = AttemptSettings(
            f"racer-{number}", publication=self.policy, fence_width=FenceWidth.NARROW
        )
        worker = attempt_worker(self.lakefs, self.operator, around, [declare(spec)], settings)
        # One process: what is known of fences is shared by its attempts.
        self.shared = self.shared or worker
        lakefs = replace(worker.harness.lakefs, trust=self.shared.harness.lakefs.trust)
        return replace(worker, harness=replace(worker.harness, lakefs=lakefs))
