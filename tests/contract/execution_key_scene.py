"""A running application of the key tests: it fences, leaves marks, and names its execution."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import MemoryTags
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.attempt.choose_target import seal_chain
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, Current, compare_wide
from perago.domain.lakefs import BranchName, CommitRecord, RepositoryId, WorkspaceReference
from perago.domain.logical_execution import (
    ExecutionInput,
    LogicalExecutionKey,
    attempt_mark_tag,
    execution_key,
    retry_chain,
)
from perago.testing.contract.conductor_under_test import ConductorScene, simple

INPUT = {"ref": "commit-a"}
REF = {"ref": "${workflow.input.ref}"}


def _repository() -> RepositoryBuilder:
    return RepositoryBuilder(MemoryLakeFS(), "repository")


@dataclass
class Application:
    """What runs an attempt: it fences, seals its chain, and names its execution."""

    scene: ConductorScene
    repository: RepositoryBuilder = field(default_factory=_repository)
    inputs: dict[str, CommitRecord] = field(default_factory=dict[str, CommitRecord])

    async def run(self, attempt: AttemptRecord) -> LogicalExecutionKey:
        """The key of a polled attempt."""
        mine, given = attempt.snapshot, attempt.input_data
        workflow = await self.scene.snapshot_of(mine.workflow_id)
        assert compare_wide(mine, workflow) == Current()
        record = self.input(str(given["ref"]))
        chain = await seal_chain(
            MemoryTags(self.repository.lakefs, WorkerHandle()),
            VirtualClock(),
            RepositoryId("repository"),
            retry_chain(mine, workflow.tasks),
            record,
        )
        place = WorkspaceReference(RepositoryId("repository"), BranchName("main"), record.commit)
        return execution_key(mine, chain, ExecutionInput(place, "/", given.get("params")))

    def input(self, ref: str) -> CommitRecord:
        """The commit that stands for a ref of a test."""
        if ref not in self.inputs:
            self.repository.commit({ref: b"an input"})
            self.inputs[ref] = self.repository.head()
        return self.inputs[ref]

    def late_mark(self, attempt: AttemptSnapshot) -> None:
        """A mark that was sent when the attempt was handed out lands now."""
        self.repository.tag(attempt_mark_tag(attempt), self.repository.head().commit)


def chain_of(key: LogicalExecutionKey) -> str:
    """The part of a key that all inputs of one chain share."""
    return key.rpartition("-")[0]


@dataclass
class OneTask:
    """A running workflow of one task, `only`, and one behind it."""

    scene: ConductorScene
    workflow_id: str
    task_type: str

    async def poll(self, worker_id: str = "worker") -> AttemptRecord:
        """Take the attempt that waits."""
        return await self.scene.poll_one(self.task_type, self.workflow_id, worker_id)

    async def rerun(self, task_id: str, given: Mapping[str, object] | None = None) -> None:
        """Run the workflow again from a row, which Conductor does once the workflow has ended."""
        await self.scene.workflows.terminate(self.workflow_id, "by hand")
        await self.scene.workflows.rerun(self.workflow_id, task_id, given)

    async def waiting(self) -> AttemptSnapshot:
        """The newest row, which nobody has polled."""
        workflow = await self.scene.snapshot_of(self.workflow_id)
        return max(workflow.tasks, key=lambda row: row.seq)


async def start(scene: ConductorScene, **fields: object) -> OneTask:
    """Start a workflow of two tasks on INPUT."""
    task_type = await scene.define_task(**{"retryCount": 3, **fields})
    tasks = simple(task_type, "only", REF), simple(task_type, "next", REF)
    return OneTask(scene, await scene.start(*tasks, workflow_input=INPUT), task_type)


async def retried_once(task: OneTask, application: Application) -> AttemptRecord:
    """Run the first attempt, let it fail, run the second and leave it running."""
    first = await task.poll()
    await application.run(first)
    await task.scene.fail(first)
    second = await task.poll()
    assert second.snapshot.retry_count == 1
    return second
