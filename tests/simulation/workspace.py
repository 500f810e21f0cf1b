"""The local half of a simulated attempt: its directory, its transfers and its function, in memory.

No disk is touched. A transfer is one request; the function writes what the engine decides.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from typing import final

from pydantic import BaseModel
from tests.simulation.steering import BodyRun, SteeredHandle, Stopped

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import WorkerHandle
from perago.app.authoring.checkpoint_copies import ClaimedCopy
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import ExecutionId
from perago.domain.hand_back import Cause
from perago.domain.sync_plan import FileFacts, SyncPlan, plan_sync
from perago.ports.errors import DamagedObjectError, WorkspaceLostError
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
    DirectoryUploads,
    Leftover,
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
    beside,
)
from perago.testing.fault_injector import ProcessDied

BODY_SECONDS = 2.0  # longer than a second: the end of such an attempt is preceded by a read
CHECKPOINT = "half-done.txt"
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

    return task_of(simulated)


@dataclass(slots=True)
class Disk:
    """The directories of one process by path, or of all processes of one host, which outlive it."""

    outlives: bool = False
    files: dict[Path, Files] = field(default_factory=dict[Path, Files])
    owners: dict[Path, SteeredHandle] = field(default_factory=dict[Path, SteeredHandle])
    outcomes: dict[Path, tuple[str, str]] = field(default_factory=dict[Path, tuple[str, str]])
    left: set[Path] = field(default_factory=set[Path])
    """Directories that a process which lives has let go."""
    copies: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """What checkpoints wait for their upload, by the directory beside which they lie."""

    def claim(self, directory: Path) -> ClaimedCopy | None:
        """The copy that waits, as `checkpoint_copies.claim` takes it from a disk."""
        return ClaimedCopy(directory, None) if directory in self.copies else None

    def release(self, directory: Path) -> None:
        """It was uploaded, or could not be."""
        self.copies.pop(directory, None)

    def make_empty(self, directory: Path) -> None:
        """Begin anew with a directory."""
        self.files[directory] = {}

    def is_ownerless(self, path: Path) -> bool:
        """Whether the process of a directory died, or has let it go."""
        return path in self.left or self.owners[path].dead

    def ownerless_outcomes(self) -> Sequence[Path]:
        """The directories of functions that ended, in which nobody works."""
        return [path for path in self.outcomes if self.is_ownerless(path)]

    def change(self) -> None:
        """Somebody changes a file in each of them."""
        for path in self.ownerless_outcomes():
            self.files[path]["out.txt"] = b"changed by somebody"

    def describe(self, directory: Path) -> str:
        """What a directory holds."""
        return json.dumps({name: each.decode() for name, each in self.files[directory].items()})


@final
class SimulatedDirectories(AttemptDirectories):
    """Directories that are entries of a dictionary."""

    def __init__(self, disk: Disk, handle: SteeredHandle) -> None:
        self._disk = disk
        self._handle = handle

    async def create(self, marker: AttemptMarker) -> Path:
        """A fresh, empty one."""
        path = Path(marker.execution_id)
        self._disk.files[path] = {}
        self._disk.owners[path] = self._handle
        return path

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Nothing reads it here: the local pass of gc is not simulated."""

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """It is there as long as its process."""

    async def remove(self, directory: Path) -> None:
        """Remove it, and what was kept beside it."""
        if self._handle.dead:  # what a killed process asks for on its way out never happens
            raise ProcessDied
        for kept in (self._disk.files, self._disk.owners, self._disk.outcomes):
            kept.pop(directory, None)
        self._disk.left.discard(directory)

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """None."""
        del older_than_seconds
        return ()

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        """Keep it beside the directory."""
        self._disk.outcomes[directory] = key, text

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        """Those of directories in which nobody works."""
        found = [(path, *self._disk.outcomes[path]) for path in self._disk.ownerless_outcomes()]
        return [(path, text) for path, of, text in found if of == key]

    async def leave(self, directory: Path) -> None:
        """It is nobody's from here on."""
        if self._handle.dead:
            raise ProcessDied
        self._disk.left.add(directory)

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        """It is this process's from here on, unless another one has it."""
        del marker
        if directory not in self._disk.owners or not self._disk.is_ownerless(directory):
            raise WorkspaceLostError(f"{directory} belongs to a process that runs")
        self._disk.owners[directory] = self._handle
        self._disk.left.discard(directory)


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
                self._lakefs.write_object(place.repository, place.branch, target, stored)
            paths = [f"{area.prefix}/{path}" for path in deletes]
            self._lakefs.delete_objects(place.repository, place.branch, paths)
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

    async def forget(self, materialised: Materialised) -> None:
        """Nothing is remembered."""

    async def describe(self, materialised: Materialised) -> str | None:
        """What the directory holds; None where the disk dies with its process."""
        return self._disk.describe(materialised.directory) if self._disk.outlives else None

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """The directory, if it is what was described."""
        if self._disk.describe(directory) != described:
            raise WorkspaceLostError(f"{directory} was changed")
        counts = TransferCounts(objects=len(self._disk.files[directory]))
        return Materialised(source, directory, counts)

    def _under(self, source: WorkspaceSource) -> Files:
        tree = self._lakefs.repository(source.repository).commit_of(source.commit).tree
        start = f"{source.prefix}/"
        return {path[len(start) :]: stored.content for path, stored in tree.under(start)}


@final
class SimulatedUploads(DirectoryUploads):
    """Brings the one file of a checkpoint onto its branch, in one request."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle, disk: Disk) -> None:
        self._lakefs = lakefs
        self._handle = handle
        self._disk = disk

    async def held(self, area: StagingArea) -> Mapping[str, FileFacts]:
        """What the branch holds, if it is there."""

        def under() -> Files:
            branch = self._lakefs.repository(area.staged.repository).branch(area.staged.branch)
            start = f"{area.prefix}/"
            found = branch.head.tree.under(start)
            return {path[len(start) :]: stored.content for path, stored in found}

        return facts_of(await self._handle.ask("checkpoints.held", under))

    async def bring(
        self, directory: Path, held: Mapping[str, FileFacts], area: StagingArea
    ) -> tuple[Mapping[str, FileFacts], TransferCounts]:
        """Write it."""
        del held
        content, place = self._disk.copies[directory], area.staged

        def write() -> None:
            stored = self._lakefs.new_object(content)
            path = f"{area.prefix}/{CHECKPOINT}"
            self._lakefs.write_object(place.repository, place.branch, path, stored)

        await self._handle.perform("checkpoints.upload", write)
        return facts_of({CHECKPOINT: content}), TransferCounts(objects=1, requests=1)


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
        if call.checkpoints is not None and call.workspace is not None:
            self._disk.copies[beside(call.workspace)] = f"of {call.execution_id}".encode()
            await call.checkpoints.upload()
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
