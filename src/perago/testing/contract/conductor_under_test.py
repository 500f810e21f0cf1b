"""A Conductor installation as the contract suites see it: its ports, and what only time does.

Each adapter brings one: the in-memory server, and a real one. The suites know nothing else of
them; whatever a test needs beyond the ports is a verb here or is not needed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from types import MappingProxyType
from typing import Protocol, final

import pytest

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowSnapshot, WorkflowStatus
from perago.ports import conductor
from perago.ports.installations import ConductorInstallation
from perago.testing.fault_injector import losing_answers


class ConductorUnderTest(Protocol):
    """One installation, shared by many tests: a test uses names of its own (`unique`).

    The ports are those of one worker, and of an operator.
    """

    queue: conductor.TaskQueue
    definitions: conductor.TaskDefinitions
    workflows: conductor.Workflows

    def unique(self, stem: str) -> str:
        """A name that starts with `stem` (letters, digits, `_`) and was never used before.

        Task types, workflow names, worker ids and domains of the tests come from here.
        """
        ...

    def losing_answers(self) -> AbstractAsyncContextManager[ConductorInstallation]:
        """Ports of another worker on the same Conductor, who never gets an answer.

        Its requests arrive and take effect. A `CuttingProxy` before a server without TLS does it;
        an adapter that can sends a read through it first, so that law L0 meets a kept connection.
        """
        ...

    async def nudge(self, workflow_id: str) -> None:
        """Apply what is due now: time-outs, retries, the next tasks, and loops and joins.

        The real server decides the workflow (its own sweep may come a minute late); the
        in-memory one does the same on its virtual clock, after a clock step of a millisecond.
        """
        ...

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: sleeps on the real server, moves the clock of the in-memory one."""
        ...


CLOCK_STEP_SECONDS = 0.001  # the server's unit: what is scheduled next gets a later time


@final
class MemoryConductorUnderTest(ConductorUnderTest):
    """Ports of one worker and one operator on one in-memory server."""

    def __init__(self) -> None:
        self._clock = VirtualClock()
        self._conductor = MemoryConductor(self._clock)
        ports = conductor_installation(self._conductor, WorkerHandle())
        self.queue, self.definitions = ports.queue, ports.definitions
        self.workflows = ports.workflows
        self._numbers = count(1)

    def unique(self, stem: str) -> str:
        return f"{stem}_{next(self._numbers)}"  # every test has its own server

    @asynccontextmanager
    async def losing_answers(self) -> AsyncGenerator[ConductorInstallation]:
        """Ports of a worker for whom every loss is planned."""
        yield losing_answers(conductor_installation(self._conductor, WorkerHandle()))

    async def nudge(self, workflow_id: str) -> None:
        """Step the clock by a millisecond and decide."""
        self._clock.advance(CLOCK_STEP_SECONDS)
        await self.workflows.decide(workflow_id)

    async def let_pass(self, seconds: float) -> None:
        """Move the clock, because these tests do not sleep."""
        self._clock.advance(seconds)


OWNER = "perago@example.org"
# For the answer to a completion or a hand-back. Conductor judges the condition of a loop before it
# answers, and starts its script engine for the first one, which takes long on a busy machine.
TIMEOUT_SECONDS = 40.0
LOOKS_MAX = 100  # 10 s of PAUSE_SECONDS: a law that fails there says so, and does not hang
PAUSE_SECONDS = 0.1  # between looks at a real server; in memory only the clock moves
NO_INPUTS: Mapping[str, object] = MappingProxyType({})


def simple(
    task_type: str, reference: str, inputs: Mapping[str, object] = NO_INPUTS, **fields: object
) -> dict[str, object]:
    """A task for workers in a workflow definition."""
    return {
        "name": task_type,
        "taskReferenceName": reference,
        "type": "SIMPLE",
        "inputParameters": dict(inputs),
        **fields,
    }


def system(kind: str, reference: str, **fields: object) -> dict[str, object]:
    """A task that the server runs itself."""
    return {"name": reference, "taskReferenceName": reference, "type": kind, **fields}


def runs_child(child: str, reference: str, inputs: Mapping[str, object]) -> dict[str, object]:
    """A task that is a workflow of its own."""
    runs = {"name": child, "version": 1}
    return system("SUB_WORKFLOW", reference, subWorkflowParam=runs, inputParameters=dict(inputs))


def workflow_of(name: str, *tasks: Mapping[str, object], **fields: object) -> dict[str, object]:
    """A workflow definition of these tasks; no time-out ends the workflow."""
    return {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": OWNER,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": list(tasks),
        **fields,
    }


@final
class ConductorScene:
    """The ports of an installation, and what most laws do with them."""

    def __init__(self, under_test: ConductorUnderTest) -> None:
        self.queue = under_test.queue
        self.definitions = under_test.definitions
        self.workflows = under_test.workflows
        self.unique = under_test.unique
        self.losing_answers = under_test.losing_answers
        self.nudge = under_test.nudge
        self.let_pass = under_test.let_pass

    async def define_task(self, **fields: object) -> str:
        """Register a task type of its own; retries come at once unless `fields` say otherwise."""
        name = self.unique("task")
        defaults = {"retryDelaySeconds": 0, "timeoutSeconds": 0, "ownerEmail": OWNER}
        await self.definitions.put({"name": name, **defaults, **fields})
        return name

    async def define_workflow(self, *tasks: Mapping[str, object], **fields: object) -> str:
        """Register a workflow of its own."""
        name = self.unique("workflow")
        await self.workflows.put_definition(workflow_of(name, *tasks, **fields))
        return name

    async def start(
        self, *tasks: Mapping[str, object], workflow_input: Mapping[str, object] = NO_INPUTS
    ) -> str:
        """Start a workflow of these tasks that nothing else is started from; its id."""
        return await self.workflows.start(await self.define_workflow(*tasks), workflow_input)

    async def start_one_task(self, **fields: object) -> tuple[str, str]:
        """Start a workflow of one task that passes the input through; its id and task type."""
        task_type = await self.define_task(**fields)
        return await self.start(simple(task_type, "only", {"all": "${workflow.input}"})), task_type

    async def take_one_task(self, **fields: object) -> tuple[str, str, AttemptRecord]:
        """Start such a workflow and take its attempt, too."""
        workflow_id, task_type = await self.start_one_task(**fields)
        return workflow_id, task_type, await self.poll_one(task_type, workflow_id)

    async def poll_now(
        self, task_type: str, worker_id: str = "worker", *, domain: str | None = None
    ) -> tuple[AttemptRecord, ...]:
        """Take whatever waits now, at most ten."""
        return await self.queue.poll(
            conductor.PollRequest(task_type, worker_id, count=10, domain=domain)
        )

    async def poll_one(
        self, task_type: str, workflow_id: str, worker_id: str = "worker"
    ) -> AttemptRecord:
        """Take one attempt; what the server schedules by itself may need a nudge and a moment."""
        for _ in range(LOOKS_MAX):
            taken = await self.queue.poll(conductor.PollRequest(task_type, worker_id))
            if taken:
                return taken[0]
            await self.nudge(workflow_id)
            await self.let_pass(PAUSE_SECONDS)
        raise AssertionError(f"no attempt of {task_type}: {await self.workflows.read(workflow_id)}")

    async def finish(
        self,
        attempt: AttemptRecord,
        status: AttemptStatus = AttemptStatus.COMPLETED,
        output: Mapping[str, object] = NO_INPUTS,
        reason: str | None = None,
    ) -> None:
        """Send a terminal update as the attempt's holder."""
        worker_id = attempt.snapshot.worker_id or "worker"
        update = conductor.TerminalUpdate(attempt.snapshot, worker_id, status, output, reason)
        await self.queue.complete(update, timeout_seconds=TIMEOUT_SECONDS)

    async def fail(self, attempt: AttemptRecord, reason: str = "broken") -> None:
        """Send FAILED."""
        await self.finish(attempt, AttemptStatus.FAILED, reason=reason)

    async def hand_back(self, taken: AttemptRecord, *, after_seconds: int = 0) -> None:
        """Hand a row back with something to remember."""
        output, reason = {"came back": 1}, "worker draining"
        given = conductor.HandBack(
            taken.snapshot, "worker", reason, output, after_seconds=after_seconds
        )
        await self.queue.hand_back(given, timeout_seconds=TIMEOUT_SECONDS)

    async def row_of(self, attempt: AttemptRecord) -> AttemptRecord:
        """Read an attempt's row; it must be there."""
        mine = attempt.snapshot
        row = await self.queue.read_attempt(mine.workflow_id, mine.task_id)
        assert row is not None
        return row

    async def snapshot_of(self, workflow_id: str) -> WorkflowSnapshot:
        """Read a workflow with its rows; it must be there."""
        workflow = await self.queue.read_workflow(workflow_id)
        assert workflow is not None
        return workflow

    async def workflow_of(self, workflow_id: str) -> conductor.WorkflowRecord:
        """Read a workflow as an operator; it must be there."""
        workflow = await self.workflows.read(workflow_id)
        assert workflow is not None
        return workflow

    async def reaches(self, workflow_id: str, status: WorkflowStatus) -> bool:
        """Whether a workflow reaches a status within a moment."""
        for _ in range(LOOKS_MAX):
            if (await self.workflow_of(workflow_id)).status is status:
                return True
            await self.nudge(workflow_id)
            await self.let_pass(PAUSE_SECONDS)
        return False


@pytest.fixture
def scene(conductor_under_test: ConductorUnderTest) -> ConductorScene:
    return ConductorScene(conductor_under_test)
