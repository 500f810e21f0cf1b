"""The ports of Conductor on the server in memory: each worker reaches it through its own handle."""

from collections.abc import Mapping
from datetime import datetime
from typing import final

from perago.adapters.memory.conductor_server import VERSION, MemoryConductor, OpenWrite, Race
from perago.adapters.memory.system import json_copy
from perago.adapters.memory.worker_handle import Turn, WorkerHandle
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowSnapshot
from perago.ports.conductor import (
    NO_DOMAINS,
    HandBack,
    LastPoll,
    PollRequest,
    TaskDefinitions,
    TaskQueue,
    TerminalUpdate,
    WorkflowRecord,
    Workflows,
)
from perago.ports.installations import Server, ServerFacts


@final
class MemoryTaskQueue(TaskQueue):
    """Operations are named `queue.<method>`."""

    def __init__(self, conductor: MemoryConductor, worker: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._worker = WorkerHandle() if worker is None else worker

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """Not waited for on the server: a batch whose answer is lost is lost with it."""
        return await self._worker.perform("queue.poll", lambda: self._conductor.poll(request))

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        del workflow_id  # the server finds a row by its own id

        def read() -> AttemptRecord | None:
            row = self._conductor.state.find_row(task_id)
            return None if row is None else row.record()

        return await self._worker.ask("queue.read_attempt", read)

    async def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        def read() -> WorkflowSnapshot | None:
            run = self._conductor.state.runs.get(workflow_id)
            return None if run is None else run.snapshot()

        return await self._worker.ask("queue.read_workflow", read)

    async def in_progress(self, task_type: str) -> tuple[AttemptRecord, ...]:
        def find() -> tuple[AttemptRecord, ...]:
            return tuple(
                row.record()
                for run in self._conductor.state.runs.values()
                for row in run.open_rows()
                if row.task_type == task_type and row.status is AttemptStatus.IN_PROGRESS
            )

        return await self._worker.ask("queue.in_progress", find)

    async def last_polls(self, task_type: str) -> tuple[LastPoll, ...]:
        return await self._worker.ask(
            "queue.last_polls", lambda: self._conductor.state.last_polls(task_type)
        )

    async def waiting(self, task_type: str) -> Mapping[str | None, int]:
        return await self._worker.ask(
            "queue.waiting", lambda: self._conductor.state.waiting(task_type)
        )

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        del worker_id  # a heartbeat leaves the row's worker as it is
        opened = await self._worker.perform(
            "queue.extend_lease", lambda: self._conductor.begin_extend_lease(attempt)
        )
        await self._land(opened)

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        del timeout_seconds  # no answer is late here; losing one is a planned fault
        opened = await self._worker.perform(
            "queue.complete", lambda: self._conductor.begin_complete(update)
        )
        await self._land(opened)

    async def hand_back(self, given: HandBack, *, timeout_seconds: float) -> None:
        del timeout_seconds  # no answer is late here; losing one is a planned fault
        await self._worker.perform("queue.hand_back", lambda: self._conductor.hand_back(given))

    async def log(self, task_id: str, line: str) -> None:
        await self._worker.perform("queue.log", lambda: self._conductor.log(task_id, line))

    async def read_log(self, task_id: str) -> tuple[str, ...]:
        return await self._worker.ask(
            "queue.read_log", lambda: tuple(self._conductor.state.logs.get(task_id, ()))
        )

    async def check(self) -> str:
        return await self._worker.ask("queue.check", lambda: VERSION)

    async def _land(self, opened: OpenWrite) -> None:
        """Give others the chance to come between a racy server's read and its write."""
        if self._conductor.race is not Race.NEVER:
            await Turn()
            opened.land()


@final
class MemoryWorkflows(Workflows):
    """Operations are named `workflows.<method>`."""

    def __init__(self, conductor: MemoryConductor, operator: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._operator = WorkerHandle() if operator is None else operator

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        await self._operator.perform(
            "workflows.put_definition",
            lambda: self._conductor.put_workflow_definition(definition),
        )

    async def read_definition(self, name: str) -> Mapping[str, object] | None:
        def read() -> Mapping[str, object] | None:
            known = self._conductor.state.workflow_definitions
            versions = [version for each, version in known if each == name]
            return json_copy(known[name, max(versions)]) if versions else None

        return await self._operator.ask("workflows.read_definition", read)

    async def list_definitions(self) -> tuple[Mapping[str, object], ...]:
        def read() -> tuple[Mapping[str, object], ...]:
            known = self._conductor.state.workflow_definitions
            newest = {name: known[name, version] for name, version in sorted(known)}
            return tuple(json_copy(each) for each in newest.values())

        return await self._operator.ask("workflows.list_definitions", read)

    async def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str] = NO_DOMAINS,
    ) -> str:
        return await self._operator.perform(
            "workflows.start",
            lambda: self._conductor.start(
                name, workflow_input, version=version, task_to_domain=task_to_domain
            ),
        )

    async def read(self, workflow_id: str) -> WorkflowRecord | None:
        def read() -> WorkflowRecord | None:
            run = self._conductor.state.runs.get(workflow_id)
            return None if run is None else run.record()

        return await self._operator.ask("workflows.read", read)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        await self._operator.perform(
            "workflows.terminate", lambda: self._conductor.terminate(workflow_id, reason)
        )

    async def pause(self, workflow_id: str) -> None:
        await self._operator.perform("workflows.pause", lambda: self._conductor.pause(workflow_id))

    async def resume(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.resume", lambda: self._conductor.resume(workflow_id)
        )

    async def retry(self, workflow_id: str) -> None:
        await self._operator.perform("workflows.retry", lambda: self._conductor.retry(workflow_id))

    async def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        await self._operator.perform(
            "workflows.rerun",
            lambda: self._conductor.rerun(workflow_id, from_task_id, task_input),
        )

    async def restart(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.restart", lambda: self._conductor.restart(workflow_id)
        )

    async def requeue(self, task_type: str) -> None:
        await self._operator.perform(
            "workflows.requeue", lambda: self._conductor.requeue(task_type)
        )

    async def release_without_result(self, attempt: AttemptRecord) -> None:
        await self._operator.perform(
            "workflows.release_without_result",
            lambda: self._conductor.hand_back(
                HandBack(attempt.snapshot, attempt.snapshot.worker_id)
            ),
        )

    async def decide(self, workflow_id: str) -> None:
        await self._operator.perform(
            "workflows.decide", lambda: self._conductor.decide(workflow_id)
        )


@final
class MemoryTaskDefinitions(TaskDefinitions):
    """Operations are named `definitions.<method>`."""

    def __init__(self, conductor: MemoryConductor, worker: WorkerHandle | None = None) -> None:
        self._conductor = conductor
        self._worker = WorkerHandle() if worker is None else worker

    async def read(self, name: str) -> Mapping[str, object] | None:
        return await self._worker.ask(
            "definitions.read", lambda: json_copy(self._conductor.state.definitions.get(name))
        )

    async def put(self, definition: Mapping[str, object]) -> None:
        await self._worker.perform(
            "definitions.put", lambda: self._conductor.put_task_definition(definition)
        )


@final
class MemoryConductorServer(Server):
    """The server in memory itself."""

    def __init__(self, conductor: MemoryConductor, worker: WorkerHandle) -> None:
        self._conductor = conductor
        self._worker = worker

    async def greet(self) -> datetime:
        return await self._worker.ask("server.greet", self._conductor.state.clock.now)

    async def facts(self) -> ServerFacts:
        return await self._worker.ask("server.facts", lambda: ServerFacts(VERSION))
