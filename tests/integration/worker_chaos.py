"""Workers under a killer: many workflows, signals at random, and what must hold afterwards.

Each workflow publishes on a branch of its own, under policy `settled`. The short form runs in the
gate, the long one in the soak.
"""

import asyncio
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene, process_file

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.names import CANARY_BRANCH_PREFIX
from perago.ports.conductor import WorkflowRecord

RESPONSE_SECONDS = 3
PAUSE_SECONDS = 0.2
STOPPED_SECONDS = RESPONSE_SECONDS + 2.0
# Reasons that a killer explains; whatever else an attempt fails for is our own doing. A beat that
# crosses Conductor's time-out puts the timed-out row back to IN_PROGRESS, beside its retry: that
# attempt finds the later one and says so.
EXPLAINED = (
    "executor process was killed by SIGKILL",
    "responseTimeout:",
    "is stale: task_id expected",
)
BODY = """
(workspace / f"{params.number}.txt").write_text(f"{os.getpid()} {time.time()}")
time.sleep(params.seconds)
"""


@dataclass(slots=True)
class Chaos:
    """One run: its scene, its workflows, and everything it killed."""

    scene: WorkerScene
    module: TaskModule
    fenced: CommitId
    chance: random.Random
    workflows: dict[str, BranchName] = field(default_factory=dict[str, BranchName])
    executors: set[int] = field(default_factory=set[int])
    records: dict[str, WorkflowRecord] = field(default_factory=dict[str, WorkflowRecord])

    async def start(self, count: int, *, seconds: float) -> None:
        """Start workflows, each on a branch of its own."""
        for number in range(count):
            branch = BranchName(f"own-{number}")
            await self.scene.lakefs.branches.create(self.scene.repository, branch, self.fenced)
            workflow = await self.scene.start(
                self.module, branch=branch, ref=self.fenced, number=number, seconds=seconds
            )
            self.workflows[workflow] = branch

    async def look(self) -> bool:
        """Apply due time-outs and read; whether everything has ended."""
        for workflow in self.workflows:
            if workflow in self.records:
                continue
            with suppress(Exception):  # a busy server may refuse a decision; the next look asks
                await self.scene.conductor.workflows.decide(workflow)
            record = await self.scene.conductor.workflows.read(workflow)
            assert record is not None
            if record.status is not WorkflowStatus.RUNNING:
                self.records[workflow] = record
        return len(self.records) == len(self.workflows)

    async def all_ended(self) -> None:
        """Look until nothing runs."""
        while not await self.look():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(PAUSE_SECONDS)

    def kill_an_executor(self, worker: RunningWorker) -> None:
        """SIGKILL one executor, whatever it does."""
        executors = worker.executors()
        self.executors.update(executors)
        if executors:
            send(self.chance.choice(executors), signal.SIGKILL)

    async def check(self) -> None:
        """Completed all, published once each, nothing left."""
        for record in self.records.values():
            assert record.status is WorkflowStatus.COMPLETED, record.reason
            for row in record.attempts:
                if row.snapshot.status is not AttemptStatus.COMPLETED:
                    reason = str(row.reason)
                    assert any(each in reason for each in EXPLAINED), reason
        for workflow, branch in self.workflows.items():
            await self.check_publication(self.records[workflow], branch)
        await self.check_litter()

    async def check_publication(self, record: WorkflowRecord, branch: BranchName) -> None:
        """The accepted output is the branch's one commit above the input.

        Conductor may write an end over a row that it has just timed out. Then two rows are
        completed: they have to name one output.
        """
        accepted = [
            row.output_data["workspace"]
            for row in record.attempts
            if row.snapshot.status is AttemptStatus.COMPLETED
        ]
        published = await self.published(branch)
        assert accepted
        for workspace in accepted:
            assert isinstance(workspace, dict)
            assert workspace["ref"] == published

    async def published(self, branch: BranchName) -> CommitId:
        """The branch's one commit above the input; there is one, and no second."""
        commits, repository = self.scene.lakefs.commits, self.scene.repository
        walk = await commits.first_parents(repository, branch, self.fenced, commits_max=10)
        (published,) = [each.commit for each in walk.above]
        return published

    async def check_litter(self) -> None:
        """Nothing is left on disk, in lakeFS and in the process table."""
        lakefs, repository = self.scene.lakefs, self.scene.repository
        for root in self.scene.folder.glob("root*"):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "perago", "gc", repository, "--older-than", "0s"),
                cwd=self.scene.folder,
                env=self.scene.environment(root),
                stdout=asyncio.subprocess.DEVNULL,
            )
            assert await process.wait() == 0
            workspaces = root / "workspaces"
            left = [path.name for path in workspaces.iterdir() if path.name.startswith("task_id=")]
            assert left == []
            assert list((workspaces / ".perago-attempts").glob("*")) == []
            shutil.rmtree(workspaces)
        page = await lakefs.branches.list_page(repository, "perago-", show_hidden=True)
        names = [branch.name for branch in page.items]
        # A parent that was killed leaves the branches of its check of the fence. Garbage collection
        # keeps those of the last ten minutes whatever its ages are: the check may be under way.
        assert [name for name in names if not name.startswith(CANARY_BRANCH_PREFIX)] == []
        assert (await lakefs.tags.list_page(repository, "perago-")).items == ()
        assert [pid for pid in self.executors if is_alive(pid)] == []

    def tally(self) -> Counter[str]:
        """How attempts ended."""
        return Counter(
            str(row.snapshot.status) for record in self.records.values() for row in record.attempts
        )


Keep: TypeAlias = Callable[[Chaos], Awaitable[None]]
"""Writes down what everything came to, before it is judged."""


@asynccontextmanager
async def chaos(scene: WorkerScene, seed: int) -> AsyncGenerator[Chaos]:
    """A fenced repository and a module whose attempts may be retried ten times."""
    fenced = await scene.lakefs.install_fence(scene.repository)
    module = await scene.declare(BODY, workspace=True, response=RESPONSE_SECONDS)
    yield Chaos(scene, module, fenced, random.Random(seed))  # noqa: S311


async def survive_kills(
    scene: WorkerScene, *, count: int, parent_kills: int, seed: int, keep: Keep
) -> None:
    """Executors are killed all the time, the parent again and again."""
    async with chaos(scene, seed) as run:
        await run.start(count, seconds=0.3)
        root = scene.folder / "root"
        worker = await scene.launch([run.module], "-j", "4", root=root)
        try:
            kills, rounds = 0, 0
            while not await run.look():
                rounds += 1
                await asyncio.sleep(PAUSE_SECONDS)
                # Three for each task, and no more: on a slow machine an executor starts later than
                # the next one is killed, and the tasks that are left would wait for ever.
                if rounds % 3 == 0 and rounds <= 9 * count:
                    run.kill_an_executor(worker)
                if kills < parent_kills and _has_attempts(worker, kills):
                    kills += 1
                    run.executors.update(worker.executors())
                    worker.signal(signal.SIGKILL)
                    await worker.exit_code()
                    worker = await scene.launch([run.module], "-j", "4", root=root)
            assert kills == parent_kills, run.tally()
            worker.signal(signal.SIGTERM)
            assert await worker.exit_code() == 0, worker.screen
        finally:
            _end(worker)
        await keep(run)
        await run.check()


async def survive_stops(
    scene: WorkerScene, *, count: int, stops: int, seed: int, keep: Keep
) -> None:
    """One of two workers is stopped for longer than its leases, then goes on as a zombie."""
    async with chaos(scene, seed) as run:
        await run.start(count, seconds=1.0)
        workers = [
            await scene.launch([run.module], "-j", "2", root=scene.folder / f"root{number}")
            for number in range(2)
        ]
        try:
            for number in range(stops):
                await _stop_for_a_while(run, workers[number % 2], executors_too=number % 3 == 2)
            await run.all_ended()
            for worker in workers:
                run.executors.update(worker.executors())
                worker.signal(signal.SIGTERM)
            for worker in workers:
                assert await worker.exit_code() == 0, worker.screen
        finally:
            for worker in workers:
                _end(worker)
        await keep(run)
        assert run.tally()[AttemptStatus.TIMED_OUT] > 0, "nobody became a zombie"
        await run.check()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for is dead."""
    try:
        return process_file(pid, "stat").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process of ours that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _has_attempts(worker: RunningWorker, before: int) -> bool:
    """Whether this incarnation has begun to work, so that its death hurts."""
    starts = len(worker.events("worker started"))
    if starts <= before:
        return False
    ids = [line.get("worker_id") for line in worker.events("worker started")]
    assert len(set(ids)) == len(ids), "two incarnations share a name"
    return bool(worker.executors()) and len(worker.events("attempt started")) > before


async def _stop_for_a_while(run: Chaos, worker: RunningWorker, *, executors_too: bool) -> None:
    """Stop a busy worker until its leases are over and its attempts have retries."""
    await _until_busy(worker)
    targets = [worker.pid, *(worker.executors() if executors_too else ())]
    for pid in targets:
        send(pid, signal.SIGSTOP)
    await _for_seconds(run, STOPPED_SECONDS)
    for pid in targets:
        send(pid, signal.SIGCONT)


async def _until_busy(worker: RunningWorker) -> None:
    before = len(worker.events("attempt materialised"))
    for _ in range(200):
        if len(worker.events("attempt materialised")) > before:
            return
        await asyncio.sleep(0.05)


async def _for_seconds(run: Chaos, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        await run.look()
        await asyncio.sleep(PAUSE_SECONDS)


def _end(worker: RunningWorker) -> None:
    if worker.process.returncode is None:
        send(worker.pid, signal.SIGCONT)
        worker.process.kill()
