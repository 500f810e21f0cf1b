"""A lakeFS and a Conductor in memory for one attempt: what a worker does, without a worker.

Needs no event loop: the attempt is driven by hand, so that a test may run a trial while a loop of
its own runs.
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.clock import VirtualClock
from perago.adapters.memory.concurrency import SequentialConcurrency
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.identities import SeededIdentities
from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.lakefs import FILE_BYTES_MIN, MemoryLakeFS
from perago.adapters.memory.repository_builder import MAIN, RepositoryBuilder
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.known_places import KnownPlaces
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.attempt.world import AttemptSettings, LakeFS, World
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import ExecutionId
from perago.domain.prefix_projection import object_path
from perago.domain.publication_fence import FENCE_FILE
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.attempt_directory import AttemptDirectories, AttemptMarker, Leftover
from perago.ports.progress import Progress
from perago.ports.task_body import TaskBody
from perago.ports.task_queue import PollRequest
from perago.testing.embedded_worker import NoLease, fence_trust
from perago.testing.trial.file_tree import DirectoryFiles, Files

TRIAL = "trial"
Result = TypeVar("Result")


@final
class KeptDirectories(AttemptDirectories):
    """Directories that stay when their attempt removes them, so that they can be looked at."""

    def __init__(self, root: Path, clock: VirtualClock) -> None:
        self._directories = LocalAttemptDirectories(root, clock, SequentialConcurrency())
        self.kept: Path | None = None

    async def create(self, marker: AttemptMarker) -> Path:
        """Create it and remember where it is."""
        self.kept = await self._directories.create(marker)
        return self.kept

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Write the branch down."""
        await self._directories.record_staging(directory, repository, branch)

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """Refuse a directory that is not that execution's any more."""
        await self._directories.check(directory, execution_id)

    async def remove(self, directory: Path) -> None:
        """Leave it where it is."""

    async def forget(self) -> None:
        """Let the lock of a directory go that is no longer there."""
        if self.kept is not None:
            await self._directories.remove(self.kept)

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """What others left."""
        return await self._directories.leftovers(older_than_seconds=older_than_seconds)


@dataclass(frozen=True, slots=True)
class TrialServers:
    """Both servers and the time that they share."""

    clock: VirtualClock
    lakefs: MemoryLakeFS
    conductor: MemoryConductor


def trial_servers(root: Path) -> TrialServers:
    """New servers; objects that are not small lie below `root` instead of in memory."""
    clock = VirtualClock()
    objects = root / "objects"
    objects.mkdir()
    return TrialServers(clock, MemoryLakeFS(files=objects), MemoryConductor(clock))


def trial_world(
    servers: TrialServers, directories: AttemptDirectories, body: TaskBody, progress: Progress
) -> World:
    """Everything that one attempt asks."""
    lakefs = lakefs_installation(servers.lakefs, WorkerHandle())
    identities, concurrency = SeededIdentities(), SequentialConcurrency()
    return World(
        lakefs=LakeFS(
            branches=lakefs.branches,
            commits=lakefs.commits,
            tags=lakefs.tags,
            objects=lakefs.objects,
            repositories=lakefs.repositories,
            pipeline=LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency),
            trust=fence_trust(lakefs, identities, concurrency, servers.clock),
            places=KnownPlaces(lakefs.repositories, lakefs.branches, lakefs.commits),
        ),
        queue=conductor_installation(servers.conductor, WorkerHandle()).queue,
        body=body,
        directories=directories,
        clock=servers.clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
    )


def attempt_once(
    servers: TrialServers,
    world: World,
    task: TaskDefinition,
    params: Mapping[str, object],
    files: Files,
) -> AttemptReport:
    """Start a workflow of this task on a commit of these files, and run its one attempt.

    The repository has the fence, so that the policy is `settled`, as it is where Perago is set up
    as the documentation says; a task that names another policy gets that one.
    """
    given: dict[str, object] = {"params": params}
    if task.workspace is not None:
        repository = RepositoryBuilder(servers.lakefs, TRIAL)
        repository.write(FENCE_PATH, FENCE_FILE)
        for path in files:
            repository.write(object_path(task.workspace.prefix, path), _content(files, path))
        commit = repository.commit({}, message="the files of the trial")
        place = {"repository": TRIAL, "branch": MAIN, "refType": "commit", "ref": commit}
        given["workspace"] = place
    return driven(_attempt_once(servers, world, task, given), servers.clock)


async def _attempt_once(
    servers: TrialServers, world: World, task: TaskDefinition, given: Mapping[str, object]
) -> AttemptReport:
    step = {
        "name": task.name,
        "taskReferenceName": TRIAL,
        "type": "SIMPLE",
        "inputParameters": {name: f"${{workflow.input.{name}}}" for name in given},
    }
    workflow = {"name": TRIAL, "version": 1, "schemaVersion": 2, "tasks": [step]}
    servers.conductor.put_workflow_definition(workflow)
    servers.conductor.start(TRIAL, given, task_to_domain={})
    (record,) = await world.queue.poll(PollRequest(task.name, TRIAL, count=1))
    dispatch = Dispatch(
        task=task,
        record=record,
        execution_id=world.identities.new_execution_id(),
        settings=AttemptSettings(TRIAL),
    )
    return await run_attempt(world, dispatch, NoLease())


def driven(work: Coroutine[object, object, Result], clock: VirtualClock) -> Result:
    """Run a coroutine that waits for nothing but virtual time, which passes at once."""
    while True:
        try:
            work.send(None)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        seconds = clock.seconds_to_next()
        if seconds is not None:
            clock.advance(seconds)


def _content(files: Files, path: str) -> bytes | Path:
    """A large file of a directory is not read in."""
    if isinstance(files, DirectoryFiles):
        place = files.place(path)
        return place if place.stat().st_size >= FILE_BYTES_MIN else place.read_bytes()
    return files[path]
