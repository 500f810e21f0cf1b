"""The servers of one schedule: lakeFS, Conductor, one fenced repository, one workflow.

Built anew for every schedule, because that is cheaper than copying one; what never changes (task
definitions, the texts of the fence) is made once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tests.simulation.mix import Mix, Shape
from tests.simulation.steering import MICROSECONDS, SteeredClock, SteeredHandle
from tests.simulation.workspace import Disk, SimulatedPipeline, SimulatedUploads, task_on

from perago.adapters.memory.conductor_server import MemoryConductor, Race
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.runs.begin import BEGIN_TASK
from perago.app.runs.finish import BUILT_IN, FINISH_TASK
from perago.app.runs.join import JOIN_TASK
from perago.domain.attempt import WorkflowStatus, as_mapping
from perago.domain.fence import SHIPPED_FENCE_FILES
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.domain.paths import FENCE_PATH
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.contract.conductor_under_test import simple, system, workflow_of

REPOSITORY = "repo"
OWNER = "data@example.com"
MAIN = BranchName("main")
RESPONSE_SECONDS = 60
RETRIES_MAX = 10

SPECS: Mapping[str, Mapping[str, object]] = {
    "edit": {"prefix": "data"},
    "left": {"prefix": "left", "isolation": "prefix"},
    "right": {"prefix": "right", "isolation": "prefix"},
    "look": {"prefix": "data", "read_only": True},
}
BEGIN, FINISH, JOIN = BEGIN_TASK.name, FINISH_TASK.name, JOIN_TASK.name
TASKS: Mapping[str, TaskDefinition] = {
    **{name: task_on(name, **SPECS[name]) for name in SPECS},
    **{each.name: each for each in BUILT_IN},
}
FOLDERS = ("data", "left", "right", "elsewhere")
OLD_INPUT_SECONDS = 1  # the input is older than anything that is made from it
FROM_INPUT = "${workflow.input.workspace}"
FROM_FIRST = "${t.output.workspace}"
FROM_SECOND = "${u.output.workspace}"


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
    host: Disk = field(default_factory=lambda: Disk(outlives=True))

    @property
    def alone(self) -> bool:
        """Whether the tasks of this mix publish on the whole branch, one after the other."""
        return self.mix.shape not in {Shape.FORK, Shape.RUN_FORK}

    @property
    def workflow_is_terminal(self) -> bool:
        """Whether only an operator could bring the workflow back."""
        return self.conductor.state.runs[self.workflow].status.is_terminal

    @property
    def workflow_status(self) -> WorkflowStatus:
        """The workflow's status now."""
        return self.conductor.state.runs[self.workflow].status

    @property
    def repository_id(self) -> RepositoryId:
        """The one repository."""
        return self.repository.id

    @property
    def tasks(self) -> Mapping[str, TaskDefinition]:
        """The tasks by name."""
        return TASKS

    def public_branch_at(self, commit: CommitId) -> BranchName | None:
        """The target or the run branch whose head this is."""
        branches = self.lakefs.repository(self.repository.id).branches
        public = [each for each in branches if each == MAIN or each.startswith(RUN_BRANCH_PREFIX)]
        return next((each for each in public if branches[each].head.id == commit), None)

    def lakefs_for(self, handle: SteeredHandle) -> LakeFSInstallation:
        """The ports of lakeFS of one process."""
        return lakefs_installation(self.lakefs, handle)

    def conductor_for(self, handle: SteeredHandle) -> ConductorInstallation:
        """The ports of Conductor of one process."""
        return conductor_installation(self.conductor, handle)

    def new_disk(self) -> Disk:
        """The disk of one process: that of the host, or one that dies with it."""
        return self.host if self.mix.same_host else Disk()

    def pipeline_for(self, handle: SteeredHandle, disk: Disk) -> SimulatedPipeline:
        """The transfers of one process."""
        return SimulatedPipeline(self.lakefs, handle, disk)

    def uploads_for(self, handle: SteeredHandle, disk: Disk) -> SimulatedUploads | None:
        """The uploads of checkpoints of one process; None where functions take none."""
        return SimulatedUploads(self.lakefs, handle, disk) if self.mix.checkpoints else None

    def workspace(self, ref: CommitId) -> dict[str, object]:
        """A task's workspace input at a commit."""
        return workspace_at(self.repository_id, ref)


def open_scene(mix: Mix) -> Scene:
    """New servers with the workflow of a mix, started; its first attempt waits."""
    clock = SteeredClock()
    lakefs = MemoryLakeFS(clock)
    conductor = MemoryConductor(clock, race=Race.AFTER_DECISION if mix.racy else Race.NEVER)
    repository = RepositoryBuilder(lakefs, REPOSITORY)
    given = repository.commit(files_of(mix))
    if mix.protected:
        repository.protect(MAIN)
    clock.move_to(OLD_INPUT_SECONDS * MICROSECONDS)
    for name in TASKS:
        conductor.put_task_definition(task_definition(name, RESPONSE_SECONDS))
    conductor.put_workflow_definition(workflow_definition(mix, "flow"))
    scene = Scene(mix, clock, lakefs, conductor, repository, given, "")
    started = workflow_input(mix, scene.workspace(given))
    scene.workflow = conductor.start("flow", started, task_to_domain={})
    return scene


def workflow_input(mix: Mix, workspace: Mapping[str, object]) -> dict[str, object]:
    """What the workflow of a mix is started with."""
    given: dict[str, object] = {"workspace": workspace, "knob": 0}
    if mix.shape.has_runs:
        given |= {"on_moved": mix.on_moved, "history": mix.history}
    return given


def workspace_at(repository: RepositoryId, ref: CommitId) -> dict[str, object]:
    """A task's workspace input at a commit."""
    return {"repository": repository, "branch": MAIN, "refType": "commit", "ref": ref}


def files_of(mix: Mix) -> dict[str, bytes | None]:
    """The content of the input commit."""
    files: dict[str, bytes | None] = {f"{folder}/kept.txt": b"kept" for folder in FOLDERS}
    if mix.fenced:
        files[FENCE_PATH] = SHIPPED_FENCE_FILES[-mix.fence_version]
    return files


def task_definition(name: str, response_seconds: int) -> dict[str, object]:
    """A task that is retried at once."""
    return {
        "name": name,
        "ownerEmail": OWNER,
        "retryCount": RETRIES_MAX,
        "retryDelaySeconds": 0,
        "responseTimeoutSeconds": response_seconds,
        "timeoutSeconds": 0,
    }


def workflow_definition(mix: Mix, name: str, ending: str = "") -> dict[str, object]:
    """The workflow of a mix; an ending makes the names of its tasks its own."""
    tasks = _with_ending(list(_TASKS_OF[mix.shape]), ending)
    return workflow_of(name, *cast("list[dict[str, object]]", tasks))


def _with_ending(value: object, ending: str) -> object:
    if isinstance(value, list):
        return [_with_ending(each, ending) for each in cast("list[object]", value)]
    row = as_mapping(value)
    named = {**row, "name": f"{row['name']}{ending}"} if row.get("type") == "SIMPLE" else row
    if "forkTasks" in named:
        named = {**named, "forkTasks": _with_ending(named["forkTasks"], ending)}
    return named


def _simple(reference: str, name: str, workspace: str) -> dict[str, object]:
    given = {"workspace": workspace, "params": {"knob": "${workflow.input.knob}"}}
    return simple(name, reference, given)


def _built_in(reference: str, name: str, **params: object) -> dict[str, object]:
    return simple(name, reference, {"params": params})


def _begin(reference: str) -> dict[str, object]:
    target = {each: f"${{workflow.input.workspace.{each}}}" for each in ("repository", "branch")}
    return _built_in(reference, BEGIN, **target)


def _finish(reference: str, begin: str, workspace: str) -> dict[str, object]:
    how = {each: f"${{workflow.input.{each}}}" for each in ("on_moved", "history")}
    run = f"${{{begin}.output.result.run}}"
    return _built_in(reference, FINISH, run=run, workspace=workspace, **how)


def _fork(*branches: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return system("FORK_JOIN", "fork", forkTasks=[list(branch) for branch in branches])


def _join(*references: str) -> dict[str, object]:
    return system("JOIN", "join", joinOn=list(references))


def _begun(reference: str) -> str:
    return f"${{{reference}.output.result.workspace}}"


_TASKS_OF: Mapping[Shape, Sequence[Mapping[str, object]]] = {
    Shape.ONE: [_simple("t", "edit", FROM_INPUT)],
    Shape.CHAIN: [_simple("t", "edit", FROM_INPUT), _simple("u", "edit", FROM_FIRST)],
    Shape.LOOK: [_simple("t", "look", FROM_INPUT), _simple("u", "edit", FROM_FIRST)],
    Shape.FORK: [
        _fork([_simple("t", "left", FROM_INPUT)], [_simple("u", "right", FROM_INPUT)]),
        _join("t", "u"),
    ],
    Shape.RUN: [
        _begin("b"),
        _simple("t", "edit", _begun("b")),
        _simple("u", "edit", FROM_FIRST),
        _finish("f", "b", FROM_SECOND),
    ],
    Shape.RUN_FORK: [
        _begin("b"),
        _fork([_simple("t", "left", _begun("b"))], [_simple("u", "right", _begun("b"))]),
        _join("t", "u"),
        _built_in("j", JOIN, workspaces=[FROM_FIRST, FROM_SECOND]),
        _finish("f", "b", _begun("j")),
    ],
    Shape.RUNS: [
        _fork(
            [_begin("b"), _simple("t", "left", _begun("b")), _finish("f", "b", FROM_FIRST)],
            [_begin("c"), _simple("u", "right", _begun("c")), _finish("g", "c", FROM_SECOND)],
        ),
        _join("f", "g"),
    ],
}
