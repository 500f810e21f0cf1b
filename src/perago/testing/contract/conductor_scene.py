"""Set-up and moves that the Conductor suites share: definitions, polls, ends of attempts.

No move hides what a test is about: each is one request, or one request repeated until it answers.
"""

from collections.abc import Mapping
from types import MappingProxyType

from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowSnapshot, WorkflowStatus
from perago.ports.task_queue import PollRequest, TerminalUpdate
from perago.ports.workflows import WorkflowRecord
from perago.testing.contract.conductor_world import ConductorWorld

OWNER = "perago@example.org"
TIMEOUT_SECONDS = 40.0  # the first loop condition of a server starts a script engine
LOOKS_MAX = 100
PAUSE_SECONDS = 0.1
NO_INPUTS: Mapping[str, object] = MappingProxyType({})


async def define_task(world: ConductorWorld, **fields: object) -> str:
    """Register a task type of its own; retries come at once unless `fields` say otherwise."""
    name = world.unique("task")
    defaults = {"retryDelaySeconds": 0, "timeoutSeconds": 0, "ownerEmail": OWNER}
    await world.definitions.put({"name": name, **defaults, **fields})
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
    world: ConductorWorld, *tasks: Mapping[str, object], **fields: object
) -> str:
    """Register a workflow of its own."""
    name = world.unique("workflow")
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
    await world.workflows.put_definition(definition)
    return name


async def start_one_task(
    world: ConductorWorld, *, workflow_input: Mapping[str, object] = NO_INPUTS, **fields: object
) -> tuple[str, str]:
    """Start a workflow of one task that passes the input through; its id and the task's type."""
    task_type = await define_task(world, **fields)
    name = await define_workflow(world, simple(task_type, "only", {"all": "${workflow.input}"}))
    return await world.workflows.start(name, workflow_input), task_type


async def poll_now(
    world: ConductorWorld, task_type: str, worker_id: str = "worker", **fields: str
) -> tuple[AttemptRecord, ...]:
    """Take whatever waits now, at most ten."""
    request = PollRequest(task_type, worker_id, count=10, domain=fields.get("domain"))
    return await world.queue.poll(request)


async def poll_one(
    world: ConductorWorld, task_type: str, workflow_id: str, worker_id: str = "worker"
) -> AttemptRecord:
    """Take one attempt; what the server schedules by itself may need a nudge and a moment."""
    for _ in range(LOOKS_MAX):
        taken = await world.queue.poll(PollRequest(task_type, worker_id))
        if taken:
            return taken[0]
        await world.nudge(workflow_id)
        await world.let_pass(PAUSE_SECONDS)
    raise AssertionError(f"no attempt of {task_type}: {await world.workflows.read(workflow_id)}")


async def finish(
    world: ConductorWorld,
    attempt: AttemptRecord,
    status: AttemptStatus = AttemptStatus.COMPLETED,
    output: Mapping[str, object] = NO_INPUTS,
    reason: str | None = None,
) -> None:
    """Send a terminal update as the attempt's holder."""
    worker_id = attempt.snapshot.worker_id or "worker"
    update = TerminalUpdate(attempt.snapshot, worker_id, status, output, reason)
    await world.queue.complete(update, timeout_seconds=TIMEOUT_SECONDS)


async def fail(world: ConductorWorld, attempt: AttemptRecord, reason: str = "broken") -> None:
    """Send FAILED."""
    await finish(world, attempt, AttemptStatus.FAILED, reason=reason)


async def row_of(world: ConductorWorld, attempt: AttemptRecord) -> AttemptRecord:
    """Read an attempt's row; it must be there."""
    row = await world.queue.read_attempt(attempt.snapshot.workflow_id, attempt.snapshot.task_id)
    assert row is not None
    return row


async def snapshot_of(world: ConductorWorld, workflow_id: str) -> WorkflowSnapshot:
    """Read a workflow with its rows; it must be there."""
    workflow = await world.queue.read_workflow(workflow_id)
    assert workflow is not None
    return workflow


async def workflow_of(world: ConductorWorld, workflow_id: str) -> WorkflowRecord:
    """Read a workflow as an operator; it must be there."""
    workflow = await world.workflows.read(workflow_id)
    assert workflow is not None
    return workflow


async def reaches(world: ConductorWorld, workflow_id: str, status: WorkflowStatus) -> bool:
    """Whether a workflow reaches a status within a moment."""
    for _ in range(LOOKS_MAX):
        if (await workflow_of(world, workflow_id)).status is status:
            return True
        await world.nudge(workflow_id)
        await world.let_pass(PAUSE_SECONDS)
    return False
