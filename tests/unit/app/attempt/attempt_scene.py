"""One logical task on the kit's servers in memory, worked by attempts that may fail.

Holds the invariants every outcome must keep; which fault happens when is the test's choice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import BaseModel

from perago.adapters.memory.installations import RepositoryBuilder
from perago.app.attempt.reset_task import Reset, ResetTools, reset_task
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import PATIENCE_SECONDS, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.conductor import WorkflowRecord
from perago.ports.workspace import Phase
from perago.testing import AttemptStory, Fault, MemoryServers, PeragoEnvironment, Repository
from perago.testing.fault_injector import FaultInjector, faulty_installation

TASK = "edit"
# Longer than an attempt waits for a service: the workers of the kit send no heartbeats.
RESPONSE_SECONDS = 3600

GIVEN = object()
"""The input that the scene itself made."""


class Params(BaseModel):
    """The task's parameters."""

    text: str = "new"


class Result(BaseModel):
    """What a run reports: its own number."""

    run: int
    text: str = ""


@dataclass
class AttemptScene:
    """An environment of the kit, the repository, and one workflow with one task."""

    root: Path
    policy: PolicySetting
    fenced: bool = True
    changes: bool = True
    require_ownership: bool = False
    response_seconds: int = RESPONSE_SECONDS
    spec: WorkspaceSpec = field(default_factory=lambda: WorkspaceSpec(prefix="data"))
    body: Callable[[Path, int], None] | None = None
    params: object = field(default_factory=dict[str, object])
    result_text: str = ""
    patience_seconds: float = PATIENCE_SECONDS
    reference: str = TASK
    runs: int = 0

    def __post_init__(self) -> None:
        self.servers = MemoryServers(root=self.root)
        self.env = PeragoEnvironment(
            policy=self.policy,
            servers=self.servers,
            require_ownership=self.require_ownership,
        )
        self.env.use_patience(self.patience_seconds)
        self.clock = self.servers.virtual_clock
        self.lakefs, self.conductor = self.servers.memory_lakefs, self.servers.memory_conductor
        self.operator = self.servers.conductor
        self.repository = RepositoryBuilder(self.lakefs, "repo")
        name = self.repository.id
        self.servers.builders[name] = self.repository
        self.env.repositories[name] = Repository(self.servers, name, name)
        files: dict[str, bytes | None] = {"data/kept.txt": b"kept", "data/old.txt": b"old"}
        files["elsewhere/other.txt"] = b"other"
        if self.fenced:
            files[FENCE_PATH] = FENCE_FILE
        self.input: CommitId = self.repository.commit(files)
        self.task = self._declare()
        self.workflow = ""

    def _declare(self) -> TaskDefinition:
        @task(name=TASK, owner_email="data@example.com", workspace=self.spec)
        def edit(workspace: Path, params: Params) -> Result:
            self.runs += 1
            if self.body is not None:
                self.body(workspace, self.runs)
            elif self.changes:
                (workspace / "out.txt").write_text(f"{params.text} {self.runs}")
                (workspace / f"only-{self.runs}.txt").write_text("of this run")
                (workspace / "old.txt").unlink()
            return Result(run=self.runs, text=self.result_text)

        return task_of(edit)

    async def started(self, workspace: object = GIVEN) -> Self:
        """The same scene, whose first attempt waits."""
        await self.start(workspace)
        return self

    async def start(self, workspace: object = GIVEN) -> None:
        """Register and start; the first attempt waits."""
        await self.env.register(self.task)
        definition: dict[str, object] = {"name": self.task.name, "ownerEmail": "data@example.com"}
        definition |= {"retryCount": 10, "retryDelaySeconds": 0}
        definition |= {"responseTimeoutSeconds": self.response_seconds, "timeoutSeconds": 0}
        await self.operator.definitions.put(definition)
        row: dict[str, object] = {"name": self.task.name, "taskReferenceName": self.reference}
        given: dict[str, object] = {"params": self.params}
        if self.task.has_workspace:
            given["workspace"] = "${workflow.input.workspace}"
        row |= {"type": "SIMPLE", "inputParameters": given}
        flow = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [row]}
        place = self.workspace() if workspace is GIVEN else workspace
        self.workflow = (await self.env.start(flow, {"workspace": place})).id

    def workspace(self, **changes: object) -> dict[str, object]:
        """The task's workspace input, with changes."""
        place = {"repository": "repo", "branch": "main", "refType": "commit", "ref": self.input}
        return {**place, **changes}

    def human(self, path: str = "elsewhere/human.txt", content: bytes = b"human") -> CommitId:
        """Somebody without Perago commits on the target."""
        return self.repository.commit({path: content})

    async def next_attempt(self, *faults: Fault) -> AttemptStory:
        """The next attempt, alone; each of these faults is to happen to it."""
        return await self.env.next_attempt(*faults)

    async def finished(self) -> WorkflowRecord:
        """Let healthy workers and due time-outs bring the workflow to its end."""
        await self.env.until_idle()
        return await self.read()

    async def read(self) -> WorkflowRecord:
        """The workflow now."""
        workflow = await self.operator.workflows.read(self.workflow)
        assert workflow is not None
        return workflow

    async def reset_task(
        self, reference: str = TASK, injector: FaultInjector | None = None
    ) -> Reset:
        """An operator's `perago reset-task`."""
        lakefs = self.servers.lakefs
        if injector is not None:
            lakefs = faulty_installation(lakefs, injector)
        tools = ResetTools(lakefs, self.operator.workflows, self.clock)
        return await reset_task(tools, self.repository.id, self.workflow, reference)

    def publications(self) -> list[CommitRecord]:
        """Commits of our task on the target above the input, newest first."""
        above = self.above_input()
        return [record for record in above if LOGICAL_TASK_KEY in record.metadata]

    def above_input(self) -> list[CommitRecord]:
        """All commits on the target above the input, newest first."""
        history = self.repository.history()
        ids = [record.commit for record in history]
        assert self.input in ids, "the input left the history of the target"
        return history[: ids.index(self.input)]

    def directories(self) -> list[Path]:
        """The markers of all attempt directories that are there."""
        return list(self.root.rglob(".perago-attempt.json"))


def told(story: AttemptStory, phase: Phase) -> list[Mapping[str, object]]:
    """What an attempt said each time it came to a phase."""
    return [event.facts for event in story.events if event.text == phase]


def warnings(story: AttemptStory) -> list[object]:
    """The warnings of an attempt, in order."""
    return [facts.get("warning") for facts in told(story, Phase.WARNED)]


async def assert_accepted(scene: AttemptScene, *, publications_max: int = 1) -> None:
    """What must hold when everything has come to rest and the workflow completed.

    The accepted commit is on the target, it is the newest of this task, its tree is exactly
    the accepted run's, its result is that run's, nothing outside the prefix changed.
    """
    workflow = await scene.read()
    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
    output = workflow.attempts[-1].output_data
    published, result = output["workspace"], output["result"]
    assert isinstance(published, dict)
    run = Result.model_validate(result).run
    found = scene.publications()
    assert len(found) <= publications_max, [record.metadata for record in found]
    files = scene.repository.files()
    if scene.changes:
        assert found, "nothing of this task is on the target"
        assert published["ref"] == found[0].commit
        expected = {
            "data/kept.txt": b"kept",
            "data/out.txt": f"new {run}".encode(),
            f"data/only-{run}.txt": b"of this run",
        }
    else:
        expected = {"data/kept.txt": b"kept", "data/old.txt": b"old"}
        assert published["ref"] == (found[0].commit if found else scene.input)
    mine = {path: content for path, content in files.items() if path.startswith("data/")}
    assert mine == expected
    assert files["elsewhere/other.txt"] == b"other"
    if scene.fenced:
        assert files[FENCE_PATH] == FENCE_FILE
    await scene.env.assert_sound()
