"""One worker process of an environment: the real steps, struck ports, one attempt at a time.

Wires; what an attempt does is the application's, what goes wrong is planned elsewhere.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import final

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.known_places import KnownPlaces
from perago.app.attempt.run_attempt import run_attempt
from perago.app.attempt.world import AttemptSettings, LakeFS, World
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.fence.canary import Canary
from perago.app.fence.trust import FenceTrust
from perago.domain.attempt import AttemptRecord
from perago.ports.clock import Clock
from perago.ports.concurrency import Concurrency
from perago.ports.identities import Identities
from perago.ports.installations import LakeFSInstallation
from perago.ports.lease import Lease
from perago.testing.attempt_story import AttemptStory, EventKind, StoryProgress
from perago.testing.ground import Ground
from perago.testing.strikes import ProcessDied, Strikes
from perago.testing.struck_ports import struck_installation, struck_port

DIED = "DIED"


@final
class NoLease(Lease):
    """Bodies take no time of the environment's clock, so nothing has to beat."""

    @property
    def last_beat(self) -> None:
        """Nothing beats."""
        return

    async def end(self) -> None:
        """Nothing beats."""


@final
class WorkerClock(Clock):
    """The environment's clock, which knows whether its worker sleeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asleep = False

    def now(self) -> datetime:
        """The wall time."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep and say so."""
        self.asleep = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self.asleep = False


@dataclass(slots=True)
class EmbeddedWorker:
    """One process with one attempt."""

    name: str
    world: World
    settings: AttemptSettings
    tasks: Mapping[str, TaskDefinition]
    strikes: Strikes
    progress: StoryProgress
    clock: WorkerClock
    story: AttemptStory | None = None
    running: asyncio.Task[None] | None = None

    @property
    def blocked(self) -> bool:
        """Whether nothing of it can go on before time passes or others act."""
        ended = self.running is None or self.running.done()
        return ended or self.strikes.waits_for is not None or self.clock.asleep

    def start(self, record: AttemptRecord, story: AttemptStory) -> None:
        """Begin an attempt."""
        self.story = self.progress.story = story
        self.strikes.begin(record, story.number)
        self.running = asyncio.create_task(self._run(record, story), name=self.name)

    async def _run(self, record: AttemptRecord, story: AttemptStory) -> None:
        dispatch = Dispatch(
            task=self.tasks[record.snapshot.task_type],
            record=record,
            execution_id=self.world.identities.new_execution_id(),
            settings=self.settings,
        )
        try:
            report = await run_attempt(self.world, dispatch, NoLease())
        except ProcessDied:
            story.status = DIED
            return
        story.recorded = report.recorded
        story.status = "NOT SENT"
        if report.update is not None:
            story.status = report.update.status
            story.reason = report.update.reason
            story.output = dict(report.update.output)
        elif report.error is not None:
            story.reason = str(report.error)
        self.progress.note(EventKind.END, story.status)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is given by its environment."""

    settings: AttemptSettings
    tasks: Mapping[str, TaskDefinition]
    strikes: Strikes
    progress: StoryProgress
    trust: FenceTrust


def fence_trust(
    lakefs: LakeFSInstallation, identities: Identities, concurrency: Concurrency, clock: Clock
) -> FenceTrust:
    """What one process knows of the fences of a lakeFS."""
    canary = Canary(branches=lakefs.branches, commits=lakefs.commits, identities=identities)
    return FenceTrust(objects=lakefs.objects, canary=canary, concurrency=concurrency, clock=clock)


def embedded_worker(ground: Ground, number: int, parts: WorkerParts) -> EmbeddedWorker:
    """A new process on a ground; its own ports, directories and memory."""
    strikes, progress = parts.strikes, parts.progress
    lakefs = struck_installation(ground.lakefs, strikes)
    conductor = struck_installation(ground.conductor, strikes)
    clock = WorkerClock(ground.clock)
    concurrency = ground.concurrency()
    pipeline = LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency)
    directories = LocalAttemptDirectories(ground.worker_root(number), clock, concurrency)
    world = World(
        lakefs=LakeFS(
            branches=lakefs.branches,
            commits=lakefs.commits,
            tags=lakefs.tags,
            objects=lakefs.objects,
            repositories=lakefs.repositories,
            pipeline=struck_port(pipeline, "pipeline", strikes),
            trust=parts.trust,
            places=KnownPlaces(lakefs.repositories, lakefs.branches, lakefs.commits),
        ),
        queue=conductor.queue,
        body=struck_port(ground.body(parts.tasks, progress), "body", strikes),
        directories=struck_port(directories, "directories", strikes),
        clock=clock,
        identities=ground.identities(number),
        concurrency=concurrency,
        progress=progress,
    )
    return EmbeddedWorker(
        parts.settings.worker_id, world, parts.settings, parts.tasks, strikes, progress, clock
    )
