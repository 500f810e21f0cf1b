"""Workers of an environment, each a process with one attempt on ports with planned faults.

What an attempt does is the application's; what goes wrong is planned elsewhere. `run_captured` runs
its task function in this thread; a trial uses it too.
"""

import asyncio
import contextlib
import io
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, final

from perago.adapters.observability.progress import ProgressLog
from perago.app.attempt.context import Attempt, AttemptSettings
from perago.app.attempt.patience import StopOrder
from perago.app.attempt.run_attempt import run_attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.listeners import AttemptEvents, AttemptListener, BodyObserver
from perago.app.worker.bodies import Order, WaitingOrder
from perago.app.worker.frames import sent_outcome
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.domain.attempt import AttemptRecord
from perago.domain.hand_back import Cause
from perago.domain.lakefs import RepositoryId
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, NoLease, TaskBody
from perago.ports.workspace import Phase
from perago.testing.definitions import target_of
from perago.testing.fault_injector import (
    FaultInjector,
    Outages,
    ProcessDied,
    faulty_installation,
    with_faults_within,
)
from perago.testing.faults import Drain, ExpireLease, Fault, ForeignCommit, Until
from perago.testing.servers import Repository, Servers, Surroundings, attempt_ports, fence_trust
from perago.testing.story import AttemptStory, EventKind, StoryListener, begin_story

OUTPUT_LINES_MAX = 1000  # what a terminal scrolls back; the first lines say how it began
DIED = "DIED"  # no status of Conductor, which learns of it only by the time-out
# Far above what any test needs: a loop without an end becomes a failure with a text, not a test
# that hangs until the time-out of the suite.
ROUNDS_MAX = 100_000
ROWS_MAX = 1_000
TURNS_MAX = 1_000_000


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
class LineObserver(BodyObserver):
    """Writes what a body says of its progress among its lines."""

    def __init__(self, lines: io.StringIO) -> None:
        self._lines = lines

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep the message."""
        del call
        self._lines.write(f"{message} {dict(facts)}\n" if facts else f"{message}\n")


def run_captured(task: TaskDefinition, call: BodyCall) -> tuple[BodyOutcome, list[str]]:
    """Run one body; its outcome, and the first lines it printed and logged.

    A result that an executor could not send to its parent is a failure here as well.
    """
    lines = io.StringIO()
    log = logging.StreamHandler(lines)
    log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(min(level, logging.INFO))  # as a worker logs
    try:
        with contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
            outcome = run_body(task, call, BodySurroundings(observer=LineObserver(lines)))
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    _, outcome = sent_outcome(call, outcome)
    return outcome, lines.getvalue().splitlines()[:OUTPUT_LINES_MAX]


@final
class InlineBody(TaskBody):
    """Runs task functions in the event loop itself, because those of tests are short.

    No other may run beside it: output is the process's.
    """

    def __init__(
        self,
        tasks: Mapping[str, TaskDefinition],
        printed: Callable[[str], None],
        stop_order: StopOrder,
    ) -> None:
        self._tasks = tasks
        self._printed = printed
        self._stop_order = stop_order

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call, unless the order to stop came first; tell what it printed and logged."""
        return await self._stop_order.before_end_of(self._run(call))

    async def _run(self, call: BodyCall) -> BodyOutcome:
        outcome, lines = run_captured(self._tasks[call.task_name], call)
        for line in lines:
            self._printed(line)
        return outcome


@dataclass(slots=True)
class EmbeddedWorker:
    """One process with one attempt."""

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
            report = await run_attempt(self.attempt, NoLease())
        except ProcessDied:
            self.story.status = DIED  # a dead process emits nothing
            return
        if isinstance(report.update, TerminalUpdate):
            self.story.output = dict(report.update.output)


@final
class EmbeddedWorkers:
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
        self._outages = Outages(servers.clock)
        self._trust = fence_trust(
            servers.lakefs, servers.identities(0), servers.concurrency(), servers.clock
        )

    @property
    def seconds(self) -> float:
        """Seconds since the environment's start."""
        return self._servers.clock.monotonic() - self._started_at

    def use(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the settings
        """For attempts that begin from now on."""
        self._settings = replace(self._settings, **changes)

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
            polled = await self._poll()
            running = len(self._workers)
            await self._settle()
            # The end of an attempt may have brought a row that waits for a poll.
            ended = len(self._workers) < running
            # The release stands first, because `or` would leave it out.
            if await self._release_due() or polled or ended:
                continue
            # After the end of every workflow only processes that stand still are left. `rest` would
            # wait on real servers for rows that change no more, so it is not asked then.
            over = await self._everything_ended(workflow_ids)
            nothing_is_due = over or not await self._servers.rest(workflow_ids)
            if nothing_is_due and not await self._release_idle():
                return
        raise AssertionError(f"the environment is not idle after {ROUNDS_MAX} rounds")

    async def next_attempt(
        self, workflow_ids: Sequence[str], faults: Sequence[Fault]
    ) -> tuple[AttemptStory, Sequence[Fault]]:
        """Poll one row, as soon as one waits, and run it alone until it ends or stands still.

        The faults that did not happen to it by its end happen to no other attempt.
        """
        while not await self._poll(rows_max=1):
            if not await self._servers.rest(workflow_ids):
                raise AssertionError("no attempt waits for a worker, and none will")
        worker = self._begun[-1]
        number = worker.story.number
        own = [replace(each, moment=replace(each.moment, attempt=number)) for each in faults]
        self.pending.extend(own)
        await self._settle()
        while worker in self._workers and worker.injector.waits_for is None:
            await self._servers.rest(workflow_ids)
            await self._servers.give_way()  # it counts as asleep until it has run
            await self._settle()
        left = [each for each in own if each in self.pending and worker not in self._workers]
        for fault in left:
            self.pending.remove(fault)
        return worker.story, [each for each in left if not each.moment.each_time]

    async def _act(
        self, record: AttemptRecord, fault: ExpireLease | Drain | ForeignCommit
    ) -> str | None:
        match fault:
            case ExpireLease():
                await self._servers.let_lease_expire(record)
                return None
            case Drain():
                (worker,) = (each for each in self._workers if each.attempt.record is record)
                if not worker.order.done():
                    worker.order.set_result(BodyStopped("worker draining: a deploy", Cause.DRAIN))
                return None
            case ForeignCommit():
                target = target_of(record)
                assert target, "only workspace tasks, begin and finish have a target branch"
                repository = self._repositories[RepositoryId(str(target["repository"]))]
                branch = str(target["branch"])
                commit = await repository.commit(fault.files, branch, message="a foreign commit")
                return f"another writer commits {commit[:8]} to {branch}"

    async def _poll(self, *, rows_max: int = ROWS_MAX) -> bool:
        found = 0
        for task_type in list(self.tasks):
            if found == rows_max:
                break
            number = self._hired + 1
            request = PollRequest(
                task_type, f"worker-{number}", count=1, domain=self._servers.domain
            )
            for record in await self._servers.conductor.queue.poll(request):
                self._hired = number
                self._begin(number, record)
                found += 1
        return found > 0

    def _begin(self, number: int, record: AttemptRecord) -> None:
        """A new process for one attempt: its own ports, directories and memory."""
        servers, snapshot = self._servers, record.snapshot
        key = snapshot.workflow_id, snapshot.reference_name
        self._attempts[key] += 1
        settings = replace(self._settings, worker_id=f"worker-{number}")
        story = begin_story(settings.worker_id, record, self._attempts[key])
        reader = StoryListener(story, lambda: self.seconds, self.watchers)
        injector = FaultInjector(
            self.pending, reader, partial(self._act, record), servers.means, self._outages
        )
        clock, identities = WorkerClock(servers.clock), servers.identities(number)
        order: Order = asyncio.get_running_loop().create_future()
        stop_order = WaitingOrder(order)
        ports = attempt_ports(
            faulty_installation(servers.lakefs, injector),
            faulty_installation(servers.conductor, injector),
            Surroundings(clock, servers.worker_root(number), identities, servers.concurrency()),
            InlineBody(self.tasks, partial(reader.note, EventKind.OUTPUT), stop_order),
            ProgressLog(),  # until the events of the attempt take its place
            self._trust,
        )
        ports = replace(with_faults_within(ports, injector), stop_order=stop_order)
        task, execution_id = self.tasks[snapshot.task_type], identities.new_execution_id()
        attempt = Attempt(ports, task, record, execution_id, settings)
        events = AttemptEvents(attempt, [*self.listeners, reader], clock)
        attempt = replace(attempt, ports=replace(ports, progress=events))
        worker = EmbeddedWorker(attempt, injector, story, clock, order)
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
