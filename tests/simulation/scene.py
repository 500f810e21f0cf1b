"""The servers of one schedule: lakeFS, Conductor, one fenced repository, one workflow.

Built anew for every schedule, because that is cheaper than copying one; what never changes (task
definitions, the texts of the fence) is made once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.simulation.mixes import Mix, Shape
from tests.simulation.steering import SteeredClock
from tests.simulation.workspace import task_on

from perago.adapters.memory.conductor_server import MemoryConductor, Race
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import WorkflowStatus
from perago.domain.logical_execution import BranchName, CommitId
from perago.domain.paths import FENCE_PATH
from perago.domain.publication import FENCE_FILE

REPOSITORY = "repo"
MAIN = BranchName("main")
RESPONSE_SECONDS = 60
RETRIES_MAX = 10

TASKS: Mapping[str, TaskDefinition] = {
    "edit": task_on("edit", prefix="data"),
    "left": task_on("left", prefix="left", isolation="prefix"),
    "right": task_on("right", prefix="right", isolation="prefix"),
    "look": task_on("look", prefix="data", read_only=True),
}
FROM_INPUT = "${workflow.input.workspace}"
FROM_FIRST = "${t.output.workspace}"


@dataclass(slots=True)
class Scene:
    """The servers and where everything is on them."""

    mix: Mix
    clock: SteeredClock
    lakefs: MemoryLakeFS
    conductor: MemoryConductor
    repository: RepositoryBuilder
    input: CommitId
    workflow: str

    @property
    def alone(self) -> bool:
        """Whether the tasks of this mix publish on the whole branch, one after the other."""
        return self.mix.shape is not Shape.FORK

    @property
    def workflow_is_terminal(self) -> bool:
        """Whether only an operator could bring the workflow back."""
        return self.conductor.state.runs[self.workflow].status.is_terminal

    @property
    def workflow_status(self) -> WorkflowStatus:
        """The workflow's status now."""
        return self.conductor.state.runs[self.workflow].status

    def workspace(self, ref: CommitId) -> dict[str, object]:
        """A task's workspace input at a commit."""
        return {"repository": REPOSITORY, "branch": MAIN, "refType": "commit", "ref": ref}


def open_scene(mix: Mix) -> Scene:
    """New servers with the workflow of a mix, started; its first attempt waits."""
    clock = SteeredClock()
    lakefs = MemoryLakeFS(now=clock.seconds_since_epoch)
    conductor = MemoryConductor(clock, race=Race.AFTER_DECISION if mix.racy else Race.NEVER)
    repository = RepositoryBuilder(lakefs, REPOSITORY)
    files: dict[str, bytes | None] = {
        f"{folder}/kept.txt": b"kept" for folder in ("data", "left", "right", "elsewhere")
    }
    if mix.fenced:
        files[FENCE_PATH] = FENCE_FILE
    given = repository.commit(files)
    if mix.protected:
        repository.protect(MAIN)
    clock.move_to(1_000_000)  # the input is older than anything that is made from it
    for name in TASKS:
        conductor.put_task_definition(
            {
                "name": name,
                "ownerEmail": "data@example.com",
                "retryCount": RETRIES_MAX,
                "retryDelaySeconds": 0,
                "responseTimeoutSeconds": RESPONSE_SECONDS,
                "timeoutSeconds": 0,
            }
        )
    conductor.put_workflow_definition(_definition(mix))
    scene = Scene(mix, clock, lakefs, conductor, repository, given, "")
    started: dict[str, object] = {"workspace": scene.workspace(given), "knob": 0}
    scene.workflow = conductor.start("flow", started, task_to_domain={})
    return scene


def _definition(mix: Mix) -> dict[str, object]:
    return {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": _TASKS_OF[mix.shape]}


def _simple(reference: str, name: str, workspace: str) -> dict[str, object]:
    given = {"workspace": workspace, "params": {"knob": "${workflow.input.knob}"}}
    row = {"name": name, "taskReferenceName": reference, "type": "SIMPLE"}
    return {**row, "inputParameters": given}


_FORK: dict[str, object] = {
    "name": "fork",
    "taskReferenceName": "fork",
    "type": "FORK_JOIN",
    "forkTasks": [[_simple("t", "left", FROM_INPUT)], [_simple("u", "right", FROM_INPUT)]],
}
_JOIN: dict[str, object] = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}
_TASKS_OF: Mapping[Shape, Sequence[Mapping[str, object]]] = {
    Shape.ONE: [_simple("t", "edit", FROM_INPUT)],
    Shape.CHAIN: [_simple("t", "edit", FROM_INPUT), _simple("u", "edit", FROM_FIRST)],
    Shape.LOOK: [_simple("t", "look", FROM_INPUT), _simple("u", "edit", FROM_FIRST)],
    Shape.FORK: [_FORK, {**_JOIN, "joinOn": ["t", "u"]}],
}
