"""A Conductor installation as the contract suites see it: its ports, and what only time does.

Each adapter brings one: the in-memory server, and a real one. The suites know nothing else of
them; whatever a test needs beyond the ports is a verb here or is not needed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Protocol, final

from perago.adapters.memory.conductor import MemoryTaskDefinitions, MemoryTaskQueue, MemoryWorkflows
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import VirtualClock
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowSnapshot, WorkflowStatus
from perago.ports.conductor import (
    PollRequest,
    TaskDefinitions,
    TaskQueue,
    TerminalUpdate,
    WorkflowRecord,
    Workflows,
)
from perago.ports.installations import ConductorInstallation
from perago.testing.fault_injector import losing_answers


class ConductorUnderTest(Protocol):
    """One installation, shared by many tests: a test uses names of its own (`unique`)."""

    @property
    def queue(self) -> TaskQueue:
        """The queue as a worker reaches it."""
        ...

    @property
    def definitions(self) -> TaskDefinitions:
        """The task definitions."""
        ...

    @property
    def workflows(self) -> Workflows:
        """The workflows as an operator reaches them."""
        ...

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
        self._queue = MemoryTaskQueue(self._conductor)
        self._definitions = MemoryTaskDefinitions(self._conductor)
        self._workflows = MemoryWorkflows(self._conductor)
        self._names = 0

    @property
    def queue(self) -> TaskQueue:
        """The queue of one worker."""
        return self._queue

    @property
    def definitions(self) -> TaskDefinitions:
        """The definitions of the same server."""
        return self._definitions

    @property
    def workflows(self) -> Workflows:
        """The workflows of the same server."""
        return self._workflows

    def unique(self, stem: str) -> str:
        """Names are counted; every test has its own server."""
        self._names += 1
        return f"{stem}_{self._names}"

    @asynccontextmanager
    async def losing_answers(self) -> AsyncGenerator[ConductorInstallation]:
        """Ports of a worker for whom every loss is planned."""
        yield losing_answers(conductor_installation(self._conductor, WorkerHandle()))

    async def nudge(self, workflow_id: str) -> None:
        """Step the clock by a millisecond and decide."""
        self._clock.advance(CLOCK_STEP_SECONDS)
        await self._workflows.decide(workflow_id)

    async def let_pass(self, seconds: float) -> None:
        """Move the clock, because these tests do not sleep."""
        self._clock.advance(seconds)


OWNER = "perago@example.org"
TIMEOUT_SECONDS = 40.0  # the first loop condition of a server starts a script engine
LOOKS_MAX = 100  # 10 s of PAUSE_SECONDS: a law that fails there says so, and does not hang
PAUSE_SECONDS = 0.1  # between looks at a real server; in memory only the clock moves
NO_INPUTS: Mapping[str, object] = MappingProxyType({})


async def define_task(under_test: ConductorUnderTest, **fields: object) -> str:
    """Register a task type of its own; retries come at once unless `fields` say otherwise."""
    name = under_test.unique("task")
    defaults = {"retryDelaySeconds": 0, "timeoutSeconds": 0, "ownerEmail": OWNER}
    await under_test.definitions.put({"name": name, **defaults, **fields})
    return name


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


async def define_workflow(
    under_test: ConductorUnderTest, *tasks: Mapping[str, object], **fields: object
) -> str:
    """Register a workflow of its own."""
    name = under_test.unique("workflow")
    definition = {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": OWNER,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": list(tasks),
        **fields,
    }
    await under_test.workflows.put_definition(definition)
    return name


async def start_one_task(
    under_test: ConductorUnderTest,
    *,
    workflow_input: Mapping[str, object] = NO_INPUTS,
    **fields: object,
) -> tuple[str, str]:
    """Start a workflow of one task that passes the input through; its id and the task's type."""
    task_type = await define_task(under_test, **fields)
    name = await define_workflow(
        under_test, simple(task_type, "only", {"all": "${workflow.input}"})
    )
    return await under_test.workflows.start(name, workflow_input), task_type


async def poll_now(
    under_test: ConductorUnderTest, task_type: str, worker_id: str = "worker", **fields: str
) -> tuple[AttemptRecord, ...]:
    """Take whatever waits now, at most ten."""
    request = PollRequest(task_type, worker_id, count=10, domain=fields.get("domain"))
    return await under_test.queue.poll(request)


async def poll_one(
    under_test: ConductorUnderTest, task_type: str, workflow_id: str, worker_id: str = "worker"
) -> AttemptRecord:
    """Take one attempt; what the server schedules by itself may need a nudge and a moment."""
    for _ in range(LOOKS_MAX):
        taken = await under_test.queue.poll(PollRequest(task_type, worker_id))
        if taken:
            return taken[0]
        await under_test.nudge(workflow_id)
        await under_test.let_pass(PAUSE_SECONDS)
    raise AssertionError(
        f"no attempt of {task_type}: {await under_test.workflows.read(workflow_id)}"
    )


async def finish(
    under_test: ConductorUnderTest,
    attempt: AttemptRecord,
    status: AttemptStatus = AttemptStatus.COMPLETED,
    output: Mapping[str, object] = NO_INPUTS,
    reason: str | None = None,
) -> None:
    """Send a terminal update as the attempt's holder."""
    worker_id = attempt.snapshot.worker_id or "worker"
    update = TerminalUpdate(attempt.snapshot, worker_id, status, output, reason)
    await under_test.queue.complete(update, timeout_seconds=TIMEOUT_SECONDS)


async def fail(
    under_test: ConductorUnderTest, attempt: AttemptRecord, reason: str = "broken"
) -> None:
    """Send FAILED."""
    await finish(under_test, attempt, AttemptStatus.FAILED, reason=reason)


async def row_of(under_test: ConductorUnderTest, attempt: AttemptRecord) -> AttemptRecord:
    """Read an attempt's row; it must be there."""
    row = await under_test.queue.read_attempt(
        attempt.snapshot.workflow_id, attempt.snapshot.task_id
    )
    assert row is not None
    return row


async def snapshot_of(under_test: ConductorUnderTest, workflow_id: str) -> WorkflowSnapshot:
    """Read a workflow with its rows; it must be there."""
    workflow = await under_test.queue.read_workflow(workflow_id)
    assert workflow is not None
    return workflow


async def workflow_of(under_test: ConductorUnderTest, workflow_id: str) -> WorkflowRecord:
    """Read a workflow as an operator; it must be there."""
    workflow = await under_test.workflows.read(workflow_id)
    assert workflow is not None
    return workflow


async def reaches(under_test: ConductorUnderTest, workflow_id: str, status: WorkflowStatus) -> bool:
    """Whether a workflow reaches a status within a moment."""
    for _ in range(LOOKS_MAX):
        if (await workflow_of(under_test, workflow_id)).status is status:
            return True
        await under_test.nudge(workflow_id)
        await under_test.let_pass(PAUSE_SECONDS)
    return False
