"""A worker under an operator and a killer: executors die idle and busy, workflows are repeated.

Acts at random on a few workflows that run beside each other, for as long as it is told. Not every
slot is busy, so that many kills meet an idle executor. What must hold at the end is checked here;
how long it takes is the test's choice.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.integration.worker_chaos import EXPLAINED, Chaos, Keep, chaos, send
from tests.integration.worker_scene import RunningWorker, WorkerScene
from tests.redelivery import release

from perago.app.worker_description import MAX_RESTART_BACKOFF_SECONDS
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.lakefs import BranchName
from perago.ports.errors import ServiceError

SLOTS = 3
RUNNING_MAX = 4
PAUSE_SECONDS = 0.15
# Longer than a lease, several beats, less than a beat, and too short to be met by anything.
BODY_SECONDS = (4.0, 1.5, 0.4, 0.0)
# An attempt that was lost meanwhile says so, where it can still say anything.
LOST = (*EXPLAINED, "the attempt is lost", "is stale: ")
# What an attempt fails for on a network that loses answers, as often as it asks again.
UNANSWERED = ("[UnavailableError ", "[OutcomeUnknownError ")
# What a restart or a rerun fails for where the attempt that the operator ended has just published.
PUBLISHED_BEFORE = "another execution of this task published it"
QUIET_EACH_SECONDS = 15.0
END_SECONDS = 90.0
# A slot whose executors were killed many times in a row, the last while it started, waits for the
# longest pause before it starts another one, which takes seconds on a busy machine.
BACK_SECONDS = MAX_RESTART_BACKOFF_SECONDS + 30.0


@dataclass
class Operator:
    """Starts, repeats and ends workflows of one run, and kills executors of its worker."""

    run: Chaos
    worker: RunningWorker
    explained: tuple[str, ...] = LOST
    ended: set[str] = field(default_factory=set[str])
    anew: set[str] = field(default_factory=set[str])
    """Restarted or run again: another execution each time."""
    done: Counter[str] = field(default_factory=Counter[str])

    async def act(self) -> None:
        """Do one thing to one workflow or one executor."""
        actions: list[Callable[[], Awaitable[None]]] = [
            self.restart,
            self.rerun,
            self.retry,
            self.requeue,
            self.release,
            self.terminate,
            self.kill,
            self.kill,
            self.kill,
        ]
        action = self.run.chance.choice(actions)
        with suppress(ServiceError):  # the workflow ended meanwhile, or the server is busy
            await action()
            self.done[action.__name__] += 1

    async def restart(self) -> None:
        """From the start, with new rows."""
        attempt = await self._terminated("restarted")
        if attempt is not None:
            self.anew.add(attempt.snapshot.workflow_id)
            await self.run.scene.conductor.workflows.restart(attempt.snapshot.workflow_id)
            self.ended.discard(attempt.snapshot.workflow_id)

    async def rerun(self) -> None:
        """From a row, which keeps its id."""
        attempt = await self._terminated("run again")
        if attempt is not None:
            workflow, task = attempt.snapshot.workflow_id, attempt.snapshot.task_id
            self.anew.add(workflow)
            await self.run.scene.conductor.workflows.rerun(workflow, task)
            self.ended.discard(workflow)

    async def retry(self) -> None:
        """A new attempt of the row that was cancelled."""
        attempt = await self._terminated("retried")
        if attempt is not None:
            await self.run.scene.conductor.workflows.retry(attempt.snapshot.workflow_id)
            self.ended.discard(attempt.snapshot.workflow_id)

    async def terminate(self) -> None:
        """For good."""
        await self._terminated("not wanted")

    async def requeue(self) -> None:
        """Every row that runs is handed out once more."""
        await self.run.scene.conductor.workflows.requeue(self.run.module.name)

    async def release(self) -> None:
        """One row that runs is handed out once more."""
        attempt = await self._any_attempt()
        if attempt is not None and attempt.snapshot.status is AttemptStatus.IN_PROGRESS:
            await release(self.run.scene.conductor.queue, attempt)

    async def kill(self) -> None:
        """Idle or busy."""
        self.run.kill_an_executor(self.worker)

    async def kill_all_idle(self) -> None:
        """Nothing runs, so that every executor is idle; each has a successor afterwards."""
        killed = self.worker.executors()
        for pid in killed:
            send(pid, signal.SIGKILL)
        began = time.monotonic()
        while time.monotonic() - began < BACK_SECONDS:
            left = self.worker.executors()
            if len(left) == SLOTS and not set(killed) & set(left):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"executors do not come back: {self.worker.screen}")

    async def start(self, *, seconds: float | None = None) -> None:
        """One more workflow, on a branch of its own."""
        run, number = self.run, len(self.run.workflows)
        branch = BranchName(f"own-{number}")
        await run.scene.lakefs.branches.create(run.scene.repository, branch, run.fenced)
        workflow = await run.scene.start(
            run.module,
            branch=branch,
            ref=run.fenced,
            number=number,
            seconds=run.chance.choice(BODY_SECONDS) if seconds is None else seconds,
        )
        run.workflows[workflow] = branch

    async def _any_attempt(self) -> AttemptRecord | None:
        """The newest row of a workflow that runs."""
        running = [each for each in self.run.workflows if each not in self.run.records]
        if not running:
            return None
        read = self.run.scene.conductor.workflows.read
        workflow = await read(self.run.chance.choice(running))
        assert workflow is not None
        return workflow.attempts[-1] if workflow.attempts else None

    async def _terminated(self, reason: str) -> AttemptRecord | None:
        """The newest row of a workflow that was terminated just now."""
        attempt = await self._any_attempt()
        if attempt is not None:
            workflow = attempt.snapshot.workflow_id
            await self.run.scene.conductor.workflows.terminate(workflow, reason)
            self.ended.add(workflow)
        return attempt


async def survive_operators(
    scene: WorkerScene,
    *,
    seconds: float,
    seed: int,
    keep: Keep,
    explained: tuple[str, ...] = LOST,
    heal: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Act for so long, then heal the network and see that everything ended; what was done."""
    async with chaos(scene, seed) as run, _worker(run) as worker:
        operator = Operator(run, worker, explained)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await _some_time(operator, min(QUIET_EACH_SECONDS, until - loop.time()))
            await _all_ended(operator)
            await operator.kill_all_idle()
        heal()
        await _every_slot_works(operator)
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0, worker.screen
        assert [line for line in worker.lines() if line["level"] == "critical"] == []
        await keep(run)
        await _check(operator)
    return operator.done


@asynccontextmanager
async def _worker(run: Chaos) -> AsyncGenerator[RunningWorker]:
    root = run.scene.folder / "root"
    async with run.scene.polling_worker([run.module], "-j", str(SLOTS), root=root) as worker:
        yield worker


async def _some_time(operator: Operator, seconds: float) -> None:
    """Keep a few workflows under way, and act on them."""
    run, loop = operator.run, asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        await run.look()
        if len(run.workflows) - len(run.records) < run.chance.randint(1, RUNNING_MAX):
            await operator.start()
        if run.chance.random() < 0.4:
            await operator.act()
            _look_again(operator)
        await asyncio.sleep(PAUSE_SECONDS)


def _look_again(operator: Operator) -> None:
    """A workflow that was brought back has not ended."""
    for workflow, record in list(operator.run.records.items()):
        if record.status is WorkflowStatus.TERMINATED and workflow not in operator.ended:
            del operator.run.records[workflow]


async def _all_ended(operator: Operator) -> None:
    try:
        await asyncio.wait_for(operator.run.all_ended(), END_SECONDS)
    except TimeoutError:
        left = [each for each in operator.run.workflows if each not in operator.run.records]
        raise AssertionError(f"{left} do not end: {operator.worker.screen}") from None


async def _every_slot_works(operator: Operator) -> None:
    """As many bodies as slots run at once; a slot that was lost, or lent for ever, shows here."""
    worker = operator.worker
    for _ in range(SLOTS):
        await operator.start(seconds=10.0)  # a loaded machine may take seconds to begin all three
    busy = 0
    for _ in range(100):
        worker.signal(signal.SIGUSR1)
        await asyncio.sleep(0.1)
        if states := worker.events("worker state"):
            busy = sum(slot["execution_id"] is not None for slot in states[-1]["slots"])
        if busy == SLOTS:
            break
    assert busy == SLOTS, worker.screen
    await _all_ended(operator)


async def _check(operator: Operator) -> None:
    """Terminated where an operator wanted it and completed otherwise; each published its output."""
    run = operator.run
    for workflow, branch in run.workflows.items():
        record = run.records[workflow]
        if workflow in operator.ended:
            assert record.status is WorkflowStatus.TERMINATED, (record.status, record.reason)
            continue
        if workflow in operator.anew and PUBLISHED_BEFORE in str(record.reason):
            await run.published(branch)
            continue
        assert record.status is WorkflowStatus.COMPLETED, (record.status, record.reason)
        for row in record.attempts:
            failed = row.snapshot.status in {AttemptStatus.FAILED, AttemptStatus.TIMED_OUT}
            reason = str(row.reason)
            assert not failed or any(each in reason for each in operator.explained), reason
        await run.check_publication(record, branch)
    await run.check_litter()
