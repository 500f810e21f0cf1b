"""The key rule of the specification, 7.1, in every form a user can cause, on every Conductor.

One logical execution is all retries of one scheduled task on one input. A test keeps the marks as
the application does: every attempt with a retry count leaves one before it looks for its key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.contract.conductor_scene import (
    define_task,
    define_workflow,
    fail,
    finish,
    poll_one,
    reaches,
    simple,
    snapshot_of,
    system,
)
from tests.contract.conductor_world import ConductorWorld

from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.attempt_fence import Current, Stale, compare_wide
from perago.domain.logical_execution import (
    AttemptMark,
    Epoch,
    LogicalExecutionKey,
    attempt_mark_tag,
    attempt_marks_of_task,
    execution_key,
    find_epoch,
    parse_attempt_mark,
)
from perago.domain.references import (
    BranchName,
    CommitId,
    RepositoryId,
    TagName,
    WorkspaceReference,
)

INPUT = {"ref": "commit-a"}
REF = {"ref": "${workflow.input.ref}"}


@dataclass
class Application:
    """What runs an attempt: it fences, leaves its mark, and names its execution."""

    world: ConductorWorld
    tags: set[TagName] = field(default_factory=set[TagName])

    async def run(self, attempt: AttemptRecord) -> LogicalExecutionKey:
        """The key of a polled attempt."""
        return (await self.run_with_epoch(attempt))[0]

    async def run_with_epoch(self, attempt: AttemptRecord) -> tuple[LogicalExecutionKey, Epoch]:
        """The key of a polled attempt, and the attempt its chain counts from."""
        mine = attempt.snapshot
        workflow = await snapshot_of(self.world, mine.workflow_id)
        assert compare_wide(mine, workflow) == Current()
        if mine.retry_count > 0:
            self.tags.add(attempt_mark_tag(mine))
        epoch = find_epoch(mine, workflow.tasks, self._marks(attempt))
        workspace = WorkspaceReference(
            RepositoryId("repository"), BranchName("main"), CommitId(str(attempt.input_data["ref"]))
        )
        return execution_key(mine, epoch, workspace, "/"), epoch

    def _marks(self, attempt: AttemptRecord) -> list[AttemptMark]:
        prefix = attempt_marks_of_task(attempt.snapshot)
        named = (parse_attempt_mark(tag) for tag in self.tags if tag.startswith(prefix))
        return [mark for mark in named if mark is not None]


@dataclass
class OneTask:
    """A running workflow of one task, `only`, and one behind it."""

    world: ConductorWorld
    workflow_id: str
    task_type: str

    async def poll(self, worker_id: str = "worker") -> AttemptRecord:
        """Take the attempt that waits."""
        return await poll_one(self.world, self.task_type, self.workflow_id, worker_id)


@pytest.fixture
def application(conductor_world: ConductorWorld) -> Application:
    return Application(conductor_world)


async def start(world: ConductorWorld, **fields: object) -> OneTask:
    task_type = await define_task(world, **{"retryCount": 3, **fields})
    name = await define_workflow(
        world, simple(task_type, "only", REF), simple(task_type, "next", REF)
    )
    return OneTask(world, await world.workflows.start(name, INPUT), task_type)


async def retried_once(task: OneTask, application: Application) -> AttemptRecord:
    """Run the first attempt, let it fail, run the second and leave it running."""
    first = await task.poll()
    await application.run(first)
    await fail(task.world, first)
    second = await task.poll()
    assert second.snapshot.retry_count == 1
    return second


async def test_an_automatic_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await fail(application.world, first)
    second = await task.poll()
    assert second.snapshot.task_id != first.snapshot.task_id
    assert await application.run(second) == key


async def test_the_third_attempt_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await fail(application.world, first)
    second = await task.poll()
    assert await application.run(second) == key
    await fail(application.world, second)
    assert await application.run(await task.poll()) == key


async def test_a_retry_after_a_response_time_out_is_the_same_execution(
    application: Application,
) -> None:
    task = await start(application.world, responseTimeoutSeconds=1)
    key = await application.run(await task.poll())
    await application.world.let_pass(1.2)
    await application.world.nudge(task.workflow_id)
    second = await task.poll()
    assert second.snapshot.retry_count == 1
    assert await application.run(second) == key


async def test_a_manual_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await finish(application.world, first, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    assert await reaches(application.world, task.workflow_id, WorkflowStatus.FAILED)
    await application.world.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_terminate_and_retry_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    key = await application.run(await task.poll())
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.retry(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_pause_keeps_the_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await application.world.workflows.pause(task.workflow_id)
    assert await application.run(first) == key
    await fail(application.world, first)
    await application.world.workflows.resume(task.workflow_id)
    assert await application.run(await task.poll()) == key


async def test_a_redelivery_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await application.world.workflows.release_without_result(first)
    again = await task.poll("another worker")
    assert again.snapshot.task_id == first.snapshot.task_id
    assert await application.run(again) == key


async def test_a_requeue_is_the_same_execution(application: Application) -> None:
    task = await start(application.world)
    key = await application.run(await task.poll())
    await application.world.workflows.requeue(task.task_type)
    again = await task.poll("another worker")
    assert again.snapshot.poll_count == 2
    assert await application.run(again) == key


async def test_a_rerun_from_the_first_attempt_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, first.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.task_id == first.snapshot.task_id
    other = await application.run(again)
    assert other != key
    await fail(application.world, again)
    assert await application.run(await task.poll()) == other


async def test_a_rerun_from_the_first_of_several_attempts_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    key = await application.run(second)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    first_id = second.snapshot.retried_task_id
    assert first_id is not None
    await application.world.workflows.rerun(task.workflow_id, first_id)
    assert await application.run(await task.poll()) != key


async def test_a_rerun_from_a_retried_attempt_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    key = await application.run(second)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, second.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.task_id == second.snapshot.task_id
    assert again.snapshot.retry_count == 1
    assert again.snapshot.retried_task_id == second.snapshot.retried_task_id
    assert again.snapshot.scheduled_time > second.snapshot.scheduled_time
    assert await application.run(again) != key


async def test_retries_of_a_rerun_belong_to_the_rerun(application: Application) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    await application.run(second)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, second.snapshot.task_id)
    again = await task.poll()
    key = await application.run(again)
    await fail(application.world, again)
    third = await task.poll()
    assert third.snapshot.retry_count == 2
    assert await application.run(third) == key


async def test_every_rerun_from_a_retried_attempt_is_an_execution_of_its_own(
    application: Application,
) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    keys = [await application.run(second)]
    for _ in range(2):
        await application.world.workflows.terminate(task.workflow_id, "by hand")
        await application.world.workflows.rerun(task.workflow_id, second.snapshot.task_id)
        keys.append(await application.run(await task.poll()))
    assert len(set(keys)) == 3


async def test_a_rerun_from_a_retried_attempt_with_another_input_is_another_execution(
    application: Application,
) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    key, epoch = await application.run_with_epoch(second)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(
        task.workflow_id, second.snapshot.task_id, {"ref": "commit-b"}
    )
    again = await task.poll()
    assert again.input_data["ref"] == "commit-b"
    other, other_epoch = await application.run_with_epoch(again)
    assert other != key
    assert other_epoch != epoch


async def test_a_rerun_of_an_attempt_that_nobody_ran_is_the_same_execution(
    application: Application,
) -> None:
    """It left no mark; what the attempts before it decided stays decided."""
    task = await start(application.world)
    first = await task.poll()
    key = await application.run(first)
    await fail(application.world, first)
    workflow = await snapshot_of(application.world, task.workflow_id)
    waiting = max(workflow.tasks, key=lambda row: row.seq)
    assert waiting.retried_task_id == first.snapshot.task_id
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, waiting.task_id)
    assert await application.run(await task.poll()) == key


async def test_a_rerun_of_the_task_before_is_another_execution(application: Application) -> None:
    task = await start(application.world)
    before = await task.poll()
    await finish(application.world, before)
    key = await application.run(await task.poll())
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, before.snapshot.task_id)
    again = await task.poll()
    assert again.snapshot.reference_name == "only"
    await finish(application.world, again)
    behind = await task.poll()
    assert behind.snapshot.reference_name == "next"
    assert await application.run(behind) != key


async def test_a_restart_is_another_execution(application: Application) -> None:
    task = await start(application.world)
    key = await application.run(await task.poll())
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.restart(task.workflow_id)
    again = await task.poll()
    assert again.snapshot.workflow_id == task.workflow_id
    assert await application.run(again) != key


async def test_a_holder_from_before_a_rerun_is_stale_before_it_can_take_the_new_key(
    application: Application,
) -> None:
    task = await start(application.world)
    second = await retried_once(task, application)
    await application.run(second)
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(task.workflow_id, second.snapshot.task_id)
    await task.poll("another worker")
    workflow = await snapshot_of(application.world, task.workflow_id)
    assert isinstance(compare_wide(second.snapshot, workflow), Stale)


async def test_a_retry_on_another_input_is_the_same_chain_with_another_key(
    application: Application,
) -> None:
    """The rerun carries an input of its own; its retry resolves the definition's again."""
    task = await start(application.world)
    first = await task.poll()
    await application.world.workflows.terminate(task.workflow_id, "by hand")
    await application.world.workflows.rerun(
        task.workflow_id, first.snapshot.task_id, {"ref": "commit-b"}
    )
    again = await task.poll()
    key, epoch = await application.run_with_epoch(again)
    await fail(application.world, again)
    second = await task.poll()
    assert (again.input_data["ref"], second.input_data["ref"]) == ("commit-b", "commit-a")
    other, other_epoch = await application.run_with_epoch(second)
    assert other_epoch == epoch
    assert other != key
    assert other.split("-")[0] == key.split("-")[0]


async def start_tasks(world: ConductorWorld, *tasks: Mapping[str, object]) -> str:
    return await world.workflows.start(await define_workflow(world, *tasks), INPUT)


async def test_each_iteration_of_a_loop_is_another_execution(application: Application) -> None:
    world = application.world
    task_type = await define_task(world)
    loop = system(
        "DO_WHILE",
        "loop",
        loopCondition="if ($.loop['iteration'] < 2) { true; } else { false; }",
        loopOver=[simple(task_type, "body", REF)],
    )
    task = OneTask(world, await start_tasks(world, loop), task_type)
    first = await task.poll()
    key = await application.run(first)
    await fail(world, first)
    retried = await task.poll()
    assert await application.run(retried) == key
    await finish(world, retried)
    second = await task.poll()
    assert (first.snapshot.iteration, second.snapshot.iteration) == (1, 2)
    assert await application.run(second) != key


async def test_siblings_of_a_fork_are_other_executions(application: Application) -> None:
    world = application.world
    left, right = await define_task(world), await define_task(world)
    fork = system(
        "FORK_JOIN",
        "fork",
        forkTasks=[[simple(left, "left", REF)], [simple(right, "right", REF)]],
    )
    workflow_id = await start_tasks(world, fork, system("JOIN", "join", joinOn=["left", "right"]))
    one = await poll_one(world, left, workflow_id)
    key = await application.run(one)
    assert await application.run(await poll_one(world, right, workflow_id)) != key
    await fail(world, one)
    assert await application.run(await poll_one(world, left, workflow_id)) == key


async def test_a_retry_of_a_sub_workflow_is_another_execution(application: Application) -> None:
    world = application.world
    task_type = await define_task(world)
    child = await define_workflow(world, simple(task_type, "inner", REF))
    part = system(
        "SUB_WORKFLOW",
        "part",
        subWorkflowParam={"name": child, "version": 1},
        inputParameters=REF,
    )
    workflow_id = await start_tasks(world, part)
    first = await poll_one(world, task_type, workflow_id)
    key = await application.run(first)
    await finish(world, first, AttemptStatus.FAILED_WITH_TERMINAL_ERROR, reason="broken")
    assert await reaches(world, workflow_id, WorkflowStatus.FAILED)
    await world.workflows.retry(workflow_id)
    again = await poll_one(world, task_type, workflow_id)
    assert again.snapshot.workflow_id != first.snapshot.workflow_id
    assert await application.run(again) != key
