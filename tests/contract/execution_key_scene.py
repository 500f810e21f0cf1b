"""A running application of the key tests: it fences, leaves marks, and names its execution."""

from dataclasses import dataclass, field

from perago.domain.attempt import AttemptRecord
from perago.domain.attempt_fence import Current, compare_wide
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
from perago.testing.contract.conductor_scene import (
    define_task,
    define_workflow,
    fail,
    poll_one,
    simple,
    snapshot_of,
)
from perago.testing.contract.conductor_world import ConductorWorld

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


async def start(world: ConductorWorld, **fields: object) -> OneTask:
    """Start a workflow of two tasks on INPUT."""
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
