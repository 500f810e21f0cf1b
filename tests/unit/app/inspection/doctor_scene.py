"""What `perago doctor` examines in unit tests: servers in memory, a clock, a disk of the test."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import (
    SeededIdentities,
    SequentialConcurrency,
    VirtualClock,
    WorkerHandle,
)
from perago.app.authoring.task_definition import TaskDefinition, build_taskdef
from perago.app.connections import ConductorConnection, connections_of
from perago.app.inspection.doctor import Ask, Finding, Status, Subject
from perago.app.settings.settings import load_settings
from perago.ports.conductor import PollRequest
from perago.ports.errors import ServiceError, UnavailableError
from perago.ports.installations import ConductorInstallation
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import refuse

ADDRESS = "memory:servers"
LOOKED_SECONDS = 5.0  # longer than any check of this directory takes


class Params(BaseModel):
    """Nothing is asked of a task here."""


class Result(BaseModel):
    """It returns nothing."""


def words(params: Params) -> Result:
    """Do nothing."""
    del params
    return Result()


TASK = TaskDefinition("words", "team@example.org", words, Params, Result)


@dataclass
class DoctorScene:
    """One subject and its servers."""

    root: Path
    task: TaskDefinition = TASK
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    # By address, what is wrong with a Conductor there; any other one answers.
    refusals: Mapping[str, ServiceError] = field(default_factory=dict[str, ServiceError])
    spark: tuple[str, str] | Exception = ("4.3.0", "pyspark 4.3.0")

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.lakefs = MemoryLakeFS(self.clock)
        self.conductor = MemoryConductor(self.clock)
        self.ports = conductor_installation(self.conductor, WorkerHandle())

    def subject(self) -> Subject:
        """All that a check may ask."""
        given = {"PERAGO_WORKSPACE_ROOT": str(self.root), "PERAGO_CONDUCTOR": ADDRESS}
        settings = load_settings(
            cwd=self.root, process_env={**given, "PERAGO_LAKEFS": ADDRESS, **self.variables}
        )
        concurrency = SequentialConcurrency()
        return Subject(
            connections=connections_of(settings),
            open_lakefs=lambda _: lakefs_installation(self.lakefs, WorkerHandle()),
            open_conductor=self._open,
            clock=self.clock,
            identities=SeededIdentities(0),
            concurrency=concurrency,
            directories=LocalAttemptDirectories(self.root, self.clock, concurrency),
            installed_spark=self._installed_spark,
            modules=("team.words",),
            tasks=(self.task,),
        )

    async def found(self, ask: Ask, subject: Subject | None = None) -> list[Finding]:
        """What a check finds while time passes."""

        async def collect() -> list[Finding]:
            return [finding async for finding in ask(subject or self.subject())]

        asking = asyncio.ensure_future(collect())
        await self.clock.let_pass(LOOKED_SECONDS)
        return await asking

    async def register(self, **fields: object) -> None:
        """Register the TaskDef, with other values for some fields, and a workflow of it."""
        await self.ports.definitions.put({**build_taskdef(self.task), **fields})
        step = {"name": self.task.name, "taskReferenceName": "only", "type": "SIMPLE"}
        definition = {"name": "songs", "version": 1, "schemaVersion": 2, "tasks": [step]}
        await self.ports.workflows.put_definition({**definition, "ownerEmail": "o@example.org"})

    async def submit(self, domain: str | None = None) -> str:
        """Start a workflow; its id."""
        domains = {} if domain is None else {self.task.name: domain}
        return await self.ports.workflows.start("songs", {}, task_to_domain=domains)

    async def poll(self, worker: str, domain: str | None = None) -> None:
        """Ask for a row as a worker does."""
        await self.ports.queue.poll(PollRequest(self.task.name, worker, domain=domain))

    async def poll_for_ever(self, worker: str, domain: str | None, *, first: float) -> None:
        """Be a worker with a free slot; a test cancels it."""
        await self.clock.sleep(first)
        while True:
            await self.poll(worker, domain)
            await self.clock.sleep(0.6)

    def _open(self, connection: ConductorConnection | None) -> ConductorInstallation:
        assert connection is not None
        refusal = self.refusals.get(connection.url)
        if refusal is None:
            return self.ports
        point = "queue.check" if isinstance(refusal, UnavailableError) else "definitions.read"
        return faulty_installation(self.ports, FaultInjector([refuse(point, refusal)]))

    def _installed_spark(self) -> tuple[str, str]:
        if isinstance(self.spark, Exception):
            raise self.spark
        return self.spark


def problems(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Status and code of all that is not in order."""
    return [(each.status, each.code) for each in findings if each.status is not Status.OK]
