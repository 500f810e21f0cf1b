"""Workers that are killed, drained and started again while the services come and go.

No operator's verb and no task function that fails: whatever a row more than one costs is our own
doing. Workflows run all the time; each publishes on a branch of its own, under policy `settled`.
Every actor draws from a chance of its own, so that one seed gives one schedule.
"""

import asyncio
import random
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.integration.forked_flow import STEPS, ForkedFlow, declare_flow
from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.integration.worker_chaos import Chaos
from tests.integration.worker_scene import RunningWorker, WorkerScene

from perago.adapters.system import SystemClock
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.errors import HandedBackTooOftenError
from perago.domain.hand_back import HAND_BACKS_MAX, hand_backs_of
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import ServiceError

WORKERS = 3
SLOTS = 2
RUNNING_MAX = 5
# Longer than the grace of a drain, shorter, and too short to be met by anything.
FUNCTION_SECONDS = (2.5, 1.0, 0.4, 0.0)
GRACE = "2s"
# A row that is handed back five times in a row may fail: most functions end between two strikes.
STRIKE_EACH_SECONDS = (4.0, 12.0)
DOWN_SECONDS_MAX = 2.0
OUTAGE_EACH_SECONDS = (3.0, 12.0)
OUTAGE_SECONDS = (2.0, 20.0)
STORE = "block store"
LOOK_SECONDS = 0.3
NOT_STARTED = "did not start"
OF_PROCESS = re.compile(r"-(\d+)-[0-9a-f]+$")  # in the name of a worker
# Long after its end a function's outcome is on the disk, also on a busy machine.
KEPT_SECONDS_MAX = 1.0
# What ends a worker and leaves the outcome of an ended function to the next one of its root.
KEEPING = frozenset({"kill", "drain"})
# A row that is lost shows only when its response time-out is over.
END_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done to a worker or a service."""

    at: float
    what: str
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.what} {self.pid or ''}".rstrip()


@dataclass(slots=True)
class RowChaos:
    """One run: its workflows and everything that was done."""

    scene: WorkerScene
    flow: ForkedFlow
    seed: int
    proxies: dict[str, OutageProxy]
    workers: list[RunningWorker | None] = field(default_factory=list[RunningWorker | None])
    ended: dict[str, WorkflowRecord] = field(default_factory=dict[str, WorkflowRecord])
    events: list[Event] = field(default_factory=list[Event])
    roots: dict[int, int] = field(default_factory=dict[int, int])
    """The number of the root of each worker that was started, by its process id."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def chance(self, actor: str) -> random.Random:
        """The chance of one actor."""
        return random.Random(f"{self.seed} {actor}")  # noqa: S311 - a schedule, no secret

    def note(self, what: str, pid: int = 0) -> None:
        """Remember what was done, on the clock of Conductor's rows."""
        self.events.append(Event(SystemClock().now().timestamp(), what, pid))

    async def rest(self, seconds: float) -> None:
        """Let time pass, but not longer than the run."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)


@dataclass(frozen=True, slots=True)
class RowsReport:
    """What a run came to."""

    seed: int
    workflows: int
    tasks: int
    rows: int
    done: Counter[str]
    hand_backs: int
    polls: Counter[int]
    """How many rows were polled how often: how likely six strikes in a row are."""
    runs: Counter[int]
    again: tuple[str, ...]
    """Functions that ran again although they had ended well before the worker did."""
    given_up: tuple[str, ...]
    """Rows that five executions in a row had handed back: the bound of docs/operations.md."""
    rootless: tuple[str, ...]
    """Rows that timed out before a worker of their root had started again: another such limit."""
    extra: tuple[str, ...]
    lost: tuple[str, ...]

    def __str__(self) -> str:
        done = ", ".join(f"{count} {what}" for what, count in sorted(self.done.items()))
        runs = ", ".join(f"{tasks} ran {times}x" for times, tasks in sorted(self.runs.items()))
        lines = [
            f"seed {self.seed}: {self.workflows} workflows, {self.tasks} tasks, {self.rows} rows",
            f"{self.hand_backs} redeliveries; {done}; task functions: {runs}",
            ", ".join(f"{rows} rows polled {times}x" for times, rows in sorted(self.polls.items())),
            *(f"handed back too often: {each}" for each in self.given_up),
            *(f"no worker on its root: {each}" for each in self.rootless),
            *(f"row too many: {each}" for each in self.extra),
            *(f"lost workflow: {each}" for each in self.lost),
            *(f"ran again: {each}" for each in self.again),
        ]
        return "\n".join(lines)


async def survive_everything(
    scene: WorkerScene,
    *,
    seconds: float,
    seed: int,
    keep: Callable[[RowChaos], Awaitable[None]],
    heal: Callable[[], None],
    store: OutageProxy | None = None,
) -> RowsReport:
    """Act for so long, then let everything end; what each task came to.

    With the way to its block store, that goes away too.
    """
    async with _opened(scene, seed, store) as run:
        async with asyncio.TaskGroup() as actors:
            jobs = [_work(run), _outages(run)]
            jobs += [_supervise(run, number) for number in range(WORKERS)]
            for job in jobs:
                actors.create_task(job)
            await asyncio.sleep(seconds)
            run.over.set()
        heal()
        await _all_ended(run)
        await _drain_all(run)
        await keep(run)
        report = await _report(run)
        print(report)  # noqa: T201 - the figures of a run
        if report.extra or report.lost or report.again:
            print("\n".join(map(str, run.events)))  # noqa: T201 - what explains a failure
        assert not report.lost, report
        for workflow in run.flow.started:
            if run.ended[workflow].status is WorkflowStatus.COMPLETED:
                await run.flow.check_tree(workflow)
        litter = Chaos(scene, run.flow.modules["plain"], run.flow.fenced, run.chance("none"))
        await litter.check_litter()
    return report


@asynccontextmanager
async def _opened(
    scene: WorkerScene, seed: int, store: OutageProxy | None
) -> AsyncGenerator[RowChaos]:
    """Two proxies and the given one, a flow, and workers that are gone when the block ends."""
    lakefs, conductor = scene.servers
    async with AsyncExitStack() as stack:
        proxies = {
            "lakeFS": await stack.enter_async_context(outage_proxy(lakefs.endpoint)),
            "Conductor": await stack.enter_async_context(outage_proxy(conductor.endpoint)),
        }
        if store is not None:
            proxies[STORE] = store
        run = RowChaos(scene, await declare_flow(scene), seed, proxies, [None] * WORKERS)
        try:
            yield run
        finally:
            for worker in run.workers:
                if worker is not None and worker.process.returncode is None:
                    worker.process.kill()
                    await worker.process.wait()


async def _work(run: RowChaos) -> None:
    """Keep a few workflows under way."""
    chance = run.chance("workflows")
    while not run.over.is_set():
        await _look(run)
        if len(run.flow.started) - len(run.ended) < RUNNING_MAX:
            seconds = {step: chance.choice(FUNCTION_SECONDS) for step in STEPS}
            children = chance.random() < 0.5
            with suppress(ServiceError):  # a lakeFS without its store makes no branch
                await run.flow.start(seconds, children=children)
        await run.rest(LOOK_SECONDS)


async def _look(run: RowChaos) -> None:
    """Apply what is due, and read what has ended."""
    workflows = run.scene.conductor.workflows
    for workflow in list(run.flow.started):
        if workflow in run.ended:
            continue
        with suppress(ServiceError):  # a busy server may refuse a decision; the next look asks
            await workflows.decide(workflow)
        record = await workflows.read(workflow)
        assert record is not None
        for child in run.flow.children_of(record):
            with suppress(ServiceError):
                await workflows.decide(child)
        if record.status is not WorkflowStatus.RUNNING:
            run.ended[workflow] = record


async def _outages(run: RowChaos) -> None:
    """Let one service after the other go away, sometimes both."""
    chance = run.chance("outages")
    choices = [["lakeFS"], ["Conductor"], ["lakeFS", "Conductor"]]
    choices += [[STORE]] if STORE in run.proxies else []
    while not run.over.is_set():
        await run.rest(chance.uniform(*OUTAGE_EACH_SECONDS))
        away = chance.choice(choices)
        seconds = chance.uniform(*OUTAGE_SECONDS)
        if run.over.is_set():
            return
        for service in away:
            run.proxies[service].leave()
            run.note(f"outage of {service}")
        await run.rest(seconds)
        for service in away:
            await run.proxies[service].come_back()
            run.note(f"return of {service}")


async def _supervise(run: RowChaos, number: int) -> None:
    """Start a worker, let it live a while, kill or drain it, and start it again."""
    chance = run.chance(f"worker {number}")
    while not run.over.is_set():
        worker = await _launched(run, number)
        await run.rest(chance.uniform(*STRIKE_EACH_SECONDS))
        if run.over.is_set():
            break
        if worker.process.returncode is not None:
            run.note("ended by itself", worker.pid)
        elif chance.random() < 0.5:
            worker.signal(signal.SIGKILL)
            run.note("kill", worker.pid)
        else:
            worker.signal(signal.SIGTERM)
            run.note("drain", worker.pid)
        await worker.process.wait()
        await run.rest(chance.uniform(0.0, DOWN_SECONDS_MAX))
    last = run.workers[number]
    if last is None or last.process.returncode is not None:
        await _launched(run, number)


async def _launched(run: RowChaos, number: int) -> RunningWorker:
    """A worker that has begun to poll, as a service manager gets it: started until it stays."""
    more = {
        "LAKECTL_SERVER_ENDPOINT_URL": run.proxies["lakeFS"].endpoint,
        "CONDUCTOR_SERVER_URL": f"{run.proxies['Conductor'].endpoint}/api",
        "PERAGO_SHUTDOWN_FORCE_KILL_AFTER": GRACE,
    }
    root = run.scene.folder / f"root{number}"
    modules = list(run.flow.modules.values())
    while True:
        worker = await run.scene.launch(modules, "-j", str(SLOTS), root=root, **more)
        run.workers[number] = worker
        run.roots[worker.pid] = number
        run.note("start", worker.pid)
        while worker.process.returncode is None:
            if _polls(worker):
                return worker
            await asyncio.sleep(0.1)
        run.note(NOT_STARTED, worker.pid)
        await asyncio.sleep(1.0)


def _polls(worker: RunningWorker) -> bool:
    """Whether the log of this process says so; the logs of its predecessors are long."""
    logs = (worker.folder / "logs").rglob(f"pid={worker.pid}__*.jsonl")
    return any('"worker started"' in log.read_text(encoding="utf-8") for log in logs)


async def _all_ended(run: RowChaos) -> None:
    deadline = time.monotonic() + END_SECONDS
    while len(run.ended) < len(run.flow.started) and time.monotonic() < deadline:
        await _look(run)
        await asyncio.sleep(LOOK_SECONDS)
    for workflow in run.flow.started:
        if workflow not in run.ended:
            record = await run.scene.conductor.workflows.read(workflow)
            assert record is not None
            run.ended[workflow] = record


async def _drain_all(run: RowChaos) -> None:
    for worker in run.workers:
        if worker is not None:
            worker.signal(signal.SIGTERM)
    for worker in run.workers:
        if worker is not None:
            assert await worker.exit_code() == 0, worker.screen
            critical = [line for line in worker.lines() if line["level"] == "critical"]
            assert critical == []


async def _report(run: RowChaos) -> RowsReport:
    """Count, and explain what is too much."""
    rows: list[AttemptRecord] = []
    lost: list[str] = []
    for workflow, record in run.ended.items():
        of_workflow = await run.flow.rows_of(record)
        rows += of_workflow
        bounded = any(map(_came_back_too_often, of_workflow))
        if record.status is not WorkflowStatus.COMPLETED and not bounded:
            lost.append(f"{workflow} {record.status}: {record.reason}")
    tasks: dict[str, list[AttemptRecord]] = {}
    for row in rows:
        tasks.setdefault(row.snapshot.logical_task_key, []).append(row)
    given_up = [_told(row) for row in rows if _came_back_too_often(row)]
    extra = [
        _told(row)
        for of_task in tasks.values()
        for row in of_task
        if _is_extra(row)
        and not any(_came_back_too_often(each) or _is_rootless(run, each) for each in of_task)
    ]
    runs, again = _runs(run)
    return RowsReport(
        run.seed,
        len(run.ended),
        len(tasks),
        len(rows),
        done=Counter(each.what for each in run.events),
        hand_backs=sum(max(row.snapshot.poll_count - 1, 0) for row in rows),
        polls=Counter(row.snapshot.poll_count for row in rows),
        runs=runs,
        again=tuple(again),
        given_up=tuple(given_up),
        rootless=tuple(_told(row) for row in rows if _is_rootless(run, row)),
        extra=tuple(extra),
        lost=tuple(lost),
    )


def _is_extra(row: AttemptRecord) -> bool:
    """A row that did not complete, or the retry of one."""
    return row.snapshot.status is not AttemptStatus.COMPLETED or row.snapshot.retry_count > 0


def _came_back_too_often(row: AttemptRecord) -> bool:
    """Whether the sixth execution failed, or died with nobody of its root to say so."""
    bound = len(hand_backs_of(row)) >= HAND_BACKS_MAX or HandedBackTooOftenError.code in str(
        row.reason
    )
    return bound and row.snapshot.status is not AttemptStatus.COMPLETED


def _is_rootless(run: RowChaos, row: AttemptRecord) -> bool:
    """Whether it timed out because no worker of its root polled: none could hand it back.

    On a busy machine a start takes ten seconds, and fails while Conductor is away. The last beat
    is at most a third of the response time-out older than the death of its worker.
    """
    named = OF_PROCESS.search(row.snapshot.worker_id or "")
    pid = int(named[1]) if named is not None else 0
    deaths = [each.at for each in run.events if each.pid == pid and each.what in KEEPING]
    if row.snapshot.status is not AttemptStatus.TIMED_OUT or not deaths:
        return False
    until = deaths[0] + row.response_timeout_seconds * 2 / 3
    failed = {each.pid for each in run.events if each.what == NOT_STARTED}
    started = [each for each in run.events if each.what == "start" and deaths[0] < each.at < until]
    same_root = [each.pid for each in started if run.roots[each.pid] == run.roots[pid]]
    return failed.issuperset(same_root)


def _told(row: AttemptRecord) -> str:
    it = row.snapshot
    return (
        f"{it.workflow_id} {it.reference_name} {it.task_id} {it.status} retry {it.retry_count} "
        f"poll {it.poll_count} polled at {it.start_time / 1000:.3f} by {it.worker_id}: {row.reason}"
    )


def _runs(run: RowChaos) -> tuple[Counter[int], list[str]]:
    """How often each function ran; which ran again on the root that its outcome was kept on."""
    counts: Counter[int] = Counter()
    again: list[str] = []
    struck = {each.pid: each for each in run.events if each.what in KEEPING}
    for file in sorted(run.flow.runs.iterdir()):
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
        begun = [parent for what, _, parent, _ in lines if what == "begun"]
        counts[len(begun)] += 1
        for number, (what, _, parent, moment) in enumerate(lines):
            later = [other for kind, _, other, _ in lines[number + 1 :] if kind == "begun"]
            end = struck.get(int(parent))
            if what != "ended" or end is None or file.name.endswith("-plain"):
                continue  # a task without a workspace keeps no outcome
            same_root = run.roots[int(parent)] in {run.roots[int(other)] for other in later}
            if same_root and end.at - float(moment) > KEPT_SECONDS_MAX:
                again.append(f"{file.name}: ended {end.at - float(moment):.1f} s before {end}")
    return counts, again
