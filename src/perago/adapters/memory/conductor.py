"""The ports of Conductor on the server in memory: each worker reaches it through its own handle."""

# mypy compares the verbs of the server with those of the port. pyright compares the `self` of the
# two as well, which differs.
# pyright: reportAssignmentType=false

from collections.abc import Mapping
from datetime import datetime
from typing import final

from perago.adapters.memory.conductor_server import VERSION, MemoryConductor, OpenWrite, Race
from perago.adapters.memory.system import (
    MemoryPort,
    Turn,
    asks,
    json_copy,
    performed_by_server,
    performs,
)
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowSnapshot
from perago.ports import conductor
from perago.ports.installations import Server, ServerFacts


@final
class MemoryTaskQueue(MemoryPort[MemoryConductor], conductor.TaskQueue):
    """The queue of task rows."""

    name = "queue"

    # Not waited for on the server: a batch whose answer is lost is lost with it.
    poll = performed_by_server(MemoryConductor.poll)

    @asks
    def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        del workflow_id  # the server finds a row by its own id
        row = self.server.state.find_row(task_id)
        return None if row is None else row.record()

    @asks
    def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        run = self.server.state.runs.get(workflow_id)
        return None if run is None else run.snapshot()

    @asks
    def in_progress(self, task_type: str) -> tuple[AttemptRecord, ...]:
        return tuple(
            row.record()
            for run in self.server.state.runs.values()
            for row in run.open_rows()
            if row.task_type == task_type and row.status is AttemptStatus.IN_PROGRESS
        )

    @asks
    def last_polls(self, task_type: str) -> tuple[conductor.LastPoll, ...]:
        return self.server.state.last_polls(task_type)

    @asks
    def waiting(self, task_type: str) -> Mapping[str | None, int]:
        return self.server.state.waiting(task_type)

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        del worker_id  # a heartbeat leaves the row's worker as it is
        opened = await self.handle.perform(
            "queue.extend_lease", lambda: self.server.begin_extend_lease(attempt)
        )
        await self._land(opened)

    async def complete(self, update: conductor.TerminalUpdate, *, timeout_seconds: float) -> None:
        del timeout_seconds  # no answer is late here; losing one is a planned fault
        opened = await self.handle.perform(
            "queue.complete", lambda: self.server.begin_complete(update)
        )
        await self._land(opened)

    @performs
    def hand_back(self, given: conductor.HandBack, *, timeout_seconds: float) -> None:
        del timeout_seconds  # no answer is late here; losing one is a planned fault
        self.server.hand_back(given)

    @performs
    def log(self, task_id: str, line: str) -> None:
        # Kept also of a task that does not exist.
        self.server.state.logs.setdefault(task_id, []).append(line)

    @asks
    def read_log(self, task_id: str) -> tuple[str, ...]:
        return tuple(self.server.state.logs.get(task_id, ()))

    @asks
    def check(self) -> str:
        return VERSION

    async def _land(self, opened: OpenWrite) -> None:
        """Give others the chance to come between a racy server's read and its write."""
        if self.server.race is not Race.NEVER:
            await Turn()
            opened.land()


@final
class MemoryWorkflows(MemoryPort[MemoryConductor], conductor.Workflows):
    """Workflows, as an operator reaches them."""

    name = "workflows"

    @asks
    def read_definition(self, name: str) -> Mapping[str, object] | None:
        known = self.server.state.workflow_definitions
        versions = [version for each, version in known if each == name]
        return json_copy(known[name, max(versions)]) if versions else None

    @asks
    def list_definitions(self) -> tuple[Mapping[str, object], ...]:
        known = self.server.state.workflow_definitions
        newest = {name: known[name, version] for name, version in sorted(known)}
        return tuple(json_copy(each) for each in newest.values())

    @asks
    def read(self, workflow_id: str) -> conductor.WorkflowRecord | None:
        run = self.server.state.runs.get(workflow_id)
        return None if run is None else run.record()

    put_definition = performed_by_server(MemoryConductor.put_workflow_definition, "put_definition")
    start = performed_by_server(MemoryConductor.start)
    terminate = performed_by_server(MemoryConductor.terminate)
    pause = performed_by_server(MemoryConductor.pause)
    resume = performed_by_server(MemoryConductor.resume)
    retry = performed_by_server(MemoryConductor.retry)
    rerun = performed_by_server(MemoryConductor.rerun)
    restart = performed_by_server(MemoryConductor.restart)
    requeue = performed_by_server(MemoryConductor.requeue)
    decide = performed_by_server(MemoryConductor.decide)


@final
class MemoryTaskDefinitions(MemoryPort[MemoryConductor], conductor.TaskDefinitions):
    """Task definitions."""

    name = "definitions"
    put = performed_by_server(MemoryConductor.put_task_definition, "put")

    @asks
    def read(self, name: str) -> Mapping[str, object] | None:
        settings = self.server.state.definitions.get(name)
        return None if settings is None else settings.definition()


@final
class MemoryConductorServer(MemoryPort[MemoryConductor], Server):
    """The server in memory itself."""

    name = "server"

    @asks
    def greet(self) -> datetime:
        return self.server.state.clock.now()

    @asks
    def facts(self) -> ServerFacts:
        return ServerFacts(VERSION)
