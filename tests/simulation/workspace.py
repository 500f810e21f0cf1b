"""The local half of a simulated attempt: its directory, its transfers and its function, in memory.

No disk is touched. A transfer is one request; the function writes what the engine decides.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import final

from pydantic import BaseModel
from tests.simulation.steering import BodyRun, Stopped

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.merging import delete_objects, write_object
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import ExecutionId
from perago.domain.hand_back import Cause
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.errors import DamagedObjectError
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    TaskBody,
)
from perago.ports.workspace import (
    AttemptDirectories,
    AttemptMarker,
    Leftover,
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)

BODY_SECONDS = 2.0  # longer than a second: the end of such an attempt is preceded by a read
Files = dict[str, bytes]


class Params(BaseModel):
    """What a run was asked for."""

    knob: int = 0


class Result(BaseModel):
    """What a run reports: which run it was, and what it was asked for."""

    run: str
    knob: int


def task_on(name: str, **spec: object) -> TaskDefinition:
    """A workspace task; its function never runs, the engine speaks for it."""

    @task(name=name, owner_email="data@example.com", workspace=WorkspaceSpec.model_validate(spec))
    def simulated(workspace: Path, params: Params) -> Result:
        raise AssertionError((workspace, params))

    definition: TaskDefinition = vars(simulated)["__perago_task__"]
    return definition


@dataclass(slots=True)
class Disk:
    """The directories of one process, by path."""

    files: dict[Path, Files]


@final
class SimulatedDirectories(AttemptDirectories):
    """Directories that are entries of a dictionary."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def create(self, marker: AttemptMarker) -> Path:
        """A fresh, empty one."""
        path = Path(marker.execution_id)
        self._disk.files[path] = {}
        return path

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Nothing reads it here: the local pass of gc is not simulated."""

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """It is there as long as its process."""

    async def remove(self, directory: Path) -> None:
        """Remove it."""
        self._disk.files.pop(directory, None)

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """None."""
        del older_than_seconds
        return ()

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        """A simulated host never comes back with its disk."""

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        """None."""
        del key
        return ()

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        """Nothing is left for anybody."""


@final
class SimulatedPipeline(WorkspacePipeline):
    """Moves a workspace between the in-memory lakeFS and the disk, one request a step."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle, disk: Disk) -> None:
        self._lakefs = lakefs
        self._handle = handle
        self._disk = disk

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """Copy the objects under the prefix."""
        files = await self._handle.ask("pipeline.materialise", lambda: self._under(source))
        self._disk.files[directory] = dict(files)
        return Materialised(source, directory, TransferCounts(objects=len(files)))

    async def plan(self, materialised: Materialised) -> SyncPlan:
        """Compare with the input commit, which never changes."""
        base = facts_of(self._under(materialised.source))
        return plan_sync(base, facts_of(self._disk.files[materialised.directory]))

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        """Write and delete on the staging branch, all in one request."""
        files = self._disk.files[materialised.directory]
        writes = {facts.path: files[facts.path] for facts in plan.upload}
        writes |= {target.path: files[target.path] for target, _ in plan.copy}
        deletes = list(plan.delete)

        def move() -> TransferCounts:
            place = area.staged
            for path, content in writes.items():
                stored = self._lakefs.new_object(content)
                target = f"{area.prefix}/{path}"
                write_object(self._lakefs, place.repository, place.branch, target, stored)
            paths = [f"{area.prefix}/{path}" for path in deletes]
            delete_objects(self._lakefs, place.repository, place.branch, paths)
            return TransferCounts(objects=len(writes), requests=1)

        return await self._handle.perform("objects.upload", move)

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """The branch differs from its start by exactly the plan."""
        del materialised
        expected = {facts.path for facts in plan.upload} | {to.path for to, _ in plan.copy}
        expected |= set(plan.delete)

        def changed() -> list[str]:
            branch = self._lakefs.repository(area.staged.repository).branch(area.staged.branch)
            return [change.path.removeprefix(f"{area.prefix}/") for change in branch.uncommitted()]

        found = await self._handle.ask("pipeline.verify", changed)
        if set(found) != expected:
            raise DamagedObjectError(f"staged {sorted(found)}, expected {sorted(expected)}")

    async def listing(self, source: WorkspaceSource) -> Collection[str]:
        """The relative paths."""
        return await self._handle.ask("pipeline.listing", lambda: list(self._under(source)))

    async def forget(self, materialised: Materialised) -> None:
        """Nothing is remembered."""

    async def describe(self, materialised: Materialised) -> None:
        """A simulated disk dies with its process."""

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """Nothing was described."""
        raise AssertionError((source, directory, described))

    def _under(self, source: WorkspaceSource) -> Files:
        tree = self._lakefs.repository(source.repository).commit_of(source.commit).tree
        start = f"{source.prefix}/"
        return {path[len(start) :]: stored.content for path, stored in tree.under(start)}


def facts_of(files: Mapping[str, bytes]) -> dict[str, FileFacts]:
    """What a plan compares of files."""
    return {
        path: FileFacts(path, md5(content, usedforsecurity=False).hexdigest(), len(content))
        for path, content in files.items()
    }


@dataclass(frozen=True, slots=True)
class BodyEnd:
    """How the engine lets a function end: what it reports, what it wrote, or what it raised."""

    run: str
    writes: bool = True
    raises: bool = False
    terminal: bool = False
    drained: bool = False


@final
class SimulatedBody(TaskBody):
    """Asks the engine how the function ends, and writes what it says."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, call: BodyCall) -> BodyOutcome:
        """One run: `out.txt` and a file of its own say which run wrote them."""
        end = await Stopped(BodyRun(BODY_SECONDS))
        assert isinstance(end, BodyEnd), end
        if end.drained:
            return BodyStopped("worker draining", Cause.DRAIN)
        if end.raises:
            return BodyRaised("ValueError: simulated", terminal=end.terminal)
        if end.writes and call.workspace is not None:
            files = self._disk.files[call.workspace]
            files["out.txt"] = end.run.encode()
            files[f"only-{end.run}.txt"] = b"of this run"
        knob = call.params.get("knob", 0)
        assert isinstance(knob, int), knob
        return BodyReturned({"run": end.run, "knob": knob})
