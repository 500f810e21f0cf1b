"""One worker process of an environment: the real steps on ports with planned faults.

It has one attempt at a time. What an attempt does is the application's; what goes wrong is planned
elsewhere.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import final

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.transport import MemoryTransport
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.adapters.workspace.staging import LocalDirectoryUploads
from perago.app.attempt.context import (
    Attempt,
    AttemptPorts,
    AttemptSettings,
    KnownRepositories,
    LakeFS,
)
from perago.app.attempt.patience import StopOrder
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.fence.trust import Canary, FenceTrust
from perago.app.telemetry.listeners import AttemptEvents, AttemptListener
from perago.app.worker.attempts import Order, WaitingOrder
from perago.domain.attempt import AttemptRecord
from perago.domain.hand_back import Cause
from perago.domain.logical_execution import RepositoryId
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.installations import LakeFSInstallation
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, Lease, TaskBody
from perago.ports.workspace import Phase
from perago.testing.attempt_story import AttemptStory, StoryListener, begin_story
from perago.testing.definitions import target_of
from perago.testing.fault_injector import (
    FaultInjector,
    ProcessDied,
    RealMeans,
    Surrounding,
    faulty_installation,
    faulty_port,
)
from perago.testing.faults import Fault, ForeignCommit, Until
from perago.testing.servers import Repository, Servers

DIED = "DIED"  # no status of Conductor, which learns of it only by the time-out


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


@final
class StoppableBody(TaskBody):
    """The body of a worker that may be told to stop."""

    def __init__(self, body: TaskBody, stop_order: StopOrder) -> None:
        self._body = body
        self._stop_order = stop_order

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call, unless the order came first."""
        return await self._stop_order.before_end_of(self._body.run(call))


@dataclass(slots=True)
class EmbeddedWorker:
    """One process with one attempt."""

    ports: AttemptPorts
    attempt: Attempt
    injector: FaultInjector
    story: AttemptStory
    clock: WorkerClock
    order: Order
    running: asyncio.Task[None] | None = None

    @property
    def blocked(self) -> bool:
        """Whether nothing of it can go on before time passes or others act."""
        ended = self.running is None or self.running.done()
        return ended or self.injector.waits_for is not None or self.clock.asleep

    def start(self) -> None:
        """Begin its attempt."""
        self.running = asyncio.create_task(self._run(), name=self.attempt.settings.worker_id)

    async def _run(self) -> None:
        try:
            report = await run_attempt(self.ports, self.attempt, NoLease())
        except ProcessDied:
            self.story.status = DIED  # a dead process emits nothing
            return
        if isinstance(report.update, TerminalUpdate):
            self.story.output = dict(report.update.output)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is given by its environment."""

    settings: AttemptSettings
    tasks: Mapping[str, TaskDefinition]
    injector: FaultInjector
    reader: StoryListener
    listeners: Sequence[AttemptListener]
    trust: FenceTrust


def fence_trust(
    lakefs: LakeFSInstallation, identities: Identities, concurrency: Concurrency, clock: Clock
) -> FenceTrust:
    """What one process knows of the fences of a lakeFS."""
    canary = Canary(branches=lakefs.branches, commits=lakefs.commits, identities=identities)
    return FenceTrust(objects=lakefs.objects, canary=canary, concurrency=concurrency, clock=clock)


def embedded_worker(
    servers: Servers, number: int, record: AttemptRecord, parts: WorkerParts
) -> EmbeddedWorker:
    """A new process for one attempt; its own ports, directories and memory."""
    injector = parts.injector
    lakefs = faulty_installation(servers.lakefs, injector)
    conductor = faulty_installation(servers.conductor, injector)
    clock, identities = WorkerClock(servers.clock), servers.identities(number)
    attempt = Attempt(
        task=parts.tasks[record.snapshot.task_type],
        record=record,
        execution_id=identities.new_execution_id(),
        settings=parts.settings,
    )
    order: Order = asyncio.get_running_loop().create_future()
    stop_order = WaitingOrder(order)
    body = StoppableBody(servers.body(parts.tasks, parts.reader), stop_order)
    concurrency = servers.concurrency()
    transport = MemoryTransport(lakefs.objects, concurrency)
    pipeline = LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport)
    directories = LocalAttemptDirectories(servers.worker_root(number), clock, concurrency)
    ports = AttemptPorts(
        lakefs=LakeFS(
            branches=lakefs.branches,
            commits=lakefs.commits,
            tags=lakefs.tags,
            objects=lakefs.objects,
            repositories=lakefs.repositories,
            pipeline=faulty_port(pipeline, "pipeline", injector),
            trust=parts.trust,
            known=KnownRepositories(lakefs.repositories, lakefs.branches, lakefs.commits),
            uploads=LocalDirectoryUploads(lakefs.objects, lakefs.commits, transport, concurrency),
        ),
        queue=conductor.queue,
        body=faulty_port(body, "body", injector),
        directories=faulty_port(directories, "directories", injector),
        clock=clock,
        identities=identities,
        concurrency=concurrency,
        progress=AttemptEvents(attempt, [*parts.listeners, parts.reader], clock),
        stop_order=stop_order,
    )
    return EmbeddedWorker(ports, attempt, injector, parts.reader.story, clock, order)


# Far above what any test needs: a loop without an end becomes a failure with a text, not a test
# that hangs until the time-out of the suite.
ROUNDS_MAX = 100_000
TURNS_MAX = 1_000_000


@final
class EmbeddedWorkers(Surrounding):
    """Workers, their stories, and the faults that wait for their moment."""

    def __init__(
        self,
        servers: Servers,
        settings: AttemptSettings,
        repositories: Mapping[RepositoryId, Repository],
    ) -> None:
        self.tasks: dict[str, TaskDefinition] = {}
        self.stories: list[AttemptStory] = []
        self.pending: list[Fault] = []
        self.watchers: list[Callable[[], None]] = []
        self.listeners: list[AttemptListener] = []
        self._servers = servers
        self._settings = settings
        self._repositories = repositories
        self._started_at = servers.clock.monotonic()
        self._workers: list[EmbeddedWorker] = []
        self._begun: list[EmbeddedWorker] = []  # a late request outlives its sender
        self._hired = 0
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._trust = fence_trust(
            servers.lakefs, servers.identities(0), servers.concurrency(), servers.clock
        )

    @property
    def means(self) -> RealMeans | None:
        """What injects real faults, if these servers have it."""
        return self._servers.means

    @property
    def seconds(self) -> float:
        """Seconds since the environment's start."""
        return self._servers.clock.monotonic() - self._started_at

    def use_policy(self, policy: PolicySetting) -> None:
        """For attempts that begin from now on."""
        self._settings = replace(self._settings, publication=policy)

    def stop(self) -> None:
        """Drop what still runs, as the end of its process would."""
        for worker in self._workers:
            worker.injector.dead = True
            # A test's own loop may have ended before its environment. Its tasks run no more, and to
            # cancel one would raise.
            if worker.running is not None and not worker.running.get_loop().is_closed():
                worker.running.cancel()

    async def work(self, workflow_ids: Sequence[str]) -> None:
        """Poll, run, let time pass; until nothing is due any more and no worker stands still."""
        for _ in range(ROUNDS_MAX):
            polled = await self._poll_all()
            running = len(self._workers)
            await self._settle()
            # The end of an attempt may have brought a row that waits for a poll.
            ended = len(self._workers) < running
            # The release stands first, because `or` would leave it out.
            if await self._release_due() or polled or ended:
                continue
            over = await self._everything_ended(workflow_ids)
            nothing_is_due = over or not await self._servers.rest(workflow_ids)
            if nothing_is_due and not await self._release_idle():
                return
        raise AssertionError(f"the environment is not idle after {ROUNDS_MAX} rounds")

    async def commit_by_somebody_else(self, record: AttemptRecord, fault: ForeignCommit) -> str:
        """Commit on the target branch of an attempt."""
        target = target_of(record)
        assert target, "only workspace tasks, begin and finish have a target branch"
        repository = self._repositories[RepositoryId(str(target["repository"]))]
        branch = str(target["branch"])
        commit = await repository.commit(fault.files, branch, message="a foreign commit")
        return f"another writer commits {commit[:8]} to {branch}"

    async def let_lease_expire(self, record: AttemptRecord) -> None:
        """Let time pass."""
        await self._servers.let_lease_expire(record)

    def drain(self, record: AttemptRecord) -> None:
        """Tell the process of this attempt to stop."""
        (worker,) = (each for each in self._workers if each.attempt.record is record)
        if not worker.order.done():
            worker.order.set_result(BodyStopped("worker draining: a deploy", Cause.DRAIN))

    async def _poll_all(self) -> bool:
        found = False
        for task_type in list(self.tasks):
            number = self._hired + 1
            request = PollRequest(
                task_type, f"worker-{number}", count=1, domain=self._servers.domain
            )
            for record in await self._servers.conductor.queue.poll(request):
                self._hired = number
                self._begin(number, record)
                found = True
        return found

    def _begin(self, number: int, record: AttemptRecord) -> None:
        """A new process for one attempt."""
        snapshot = record.snapshot
        key = snapshot.workflow_id, snapshot.reference_name
        self._attempts[key] += 1
        settings = replace(self._settings, worker_id=f"worker-{number}")
        story = begin_story(settings.worker_id, record, self._attempts[key])
        reader = StoryListener(story, lambda: self.seconds, self.watchers)
        injector = FaultInjector(self.pending, self, record, reader)
        parts = WorkerParts(settings, self.tasks, injector, reader, self.listeners, self._trust)
        worker = embedded_worker(self._servers, number, record, parts)
        self.stories.append(story)
        self._workers.append(worker)
        self._begun.append(worker)
        worker.start()

    async def _settle(self) -> None:
        """Give way until every worker has ended, sleeps, or stands still."""
        for _ in range(TURNS_MAX):
            self._workers = [worker for worker in self._workers if not _ended(worker)]
            if all(worker.blocked for worker in self._workers):
                return
            await self._servers.give_way()
        raise AssertionError("an attempt does not end and does not wait for anything")

    async def _release_due(self) -> bool:
        """Let workers go on, and late requests arrive, that waited for what has happened now."""
        due = [
            worker
            for worker in self._workers
            if self._has_happened(worker, worker.injector.waits_for)
        ]
        senders = [
            worker
            for worker in self._senders()
            if self._has_happened(worker, worker.injector.late[0].until)
        ]
        return await _let_go(due, senders)

    async def _release_idle(self) -> bool:
        """When nothing else can happen, let every worker go on that stands still."""
        standing = [worker for worker in self._workers if worker.injector.waits_for is not None]
        return await _let_go(standing, self._senders())

    def _senders(self) -> list[EmbeddedWorker]:
        return [worker for worker in self._begun if worker.injector.late]

    def _has_happened(self, worker: EmbeddedWorker, until: Until | None) -> bool:
        mine = worker.story
        if until is None:
            return False
        later = [
            story
            for story in self.stories
            if (story.workflow_id, story.reference) == (mine.workflow_id, mine.reference)
            and story.number > mine.number
        ]
        match until:
            case Until.RETRIED:
                return bool(later)
            case Until.PUBLISHED:
                return any(Phase.PUBLISHED in story.phases() for story in later)
            case Until.ACCEPTED:
                return any(story.accepted for story in later)
            case Until.IDLE:
                return False

    async def _everything_ended(self, workflow_ids: Sequence[str]) -> bool:
        if any(worker.injector.waits_for is None for worker in self._workers):
            return False
        for workflow_id in workflow_ids:
            workflow = await self._servers.conductor.workflows.read(workflow_id)
            if workflow is not None and not workflow.status.is_terminal:
                return False
        return True


async def _let_go(standing: Sequence[EmbeddedWorker], senders: Sequence[EmbeddedWorker]) -> bool:
    for worker in standing:
        worker.injector.release()
    for worker in senders:
        await worker.injector.arrive_late()
    return bool(standing or senders)


def _ended(worker: EmbeddedWorker) -> bool:
    """Whether a process is gone; an error that no step catches is the test's to see.

    A worker whose work has not begun is not gone: it has no outcome that a test could wait for.
    """
    if worker.running is None or not worker.running.done():
        return False
    worker.running.result()
    return True
