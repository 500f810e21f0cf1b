"""The scene of attempts for tests that hold the worker in their hands.

Its workers are made of the kit's parts; a test replaces one of them, runs several attempts in one
process, polls by itself, or counts requests. Everything else is told by `AttemptScene`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from tests.attempt_workers import AttemptWorker, attempt_worker
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, assert_accepted

from perago.adapters.memory.installations import conductor_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.patience import NoStopOrder
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import WorkflowStatus
from perago.domain.policy import PolicySetting
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.testing.embedded_workers import InlineBody
from perago.testing.fault_injector import (
    FaultInjector,
    Outages,
    ProcessDied,
    faulty_installation,
    with_faults_within,
)
from perago.testing.faults import LOCAL_PORTS, Fault
from perago.testing.servers import Surroundings

ATTEMPTS_MAX = 8
RESPONSE_SECONDS = 60  # Conductor notices that it is over when the test says so
TURNS_MAX = 200_000

T = TypeVar("T")


def _ignored(line: str) -> None:
    del line


@dataclass
class AttemptHarness(AttemptScene):
    """The scene, and workers one by one, each with what it has sent and what it meets."""

    response_seconds: int = RESPONSE_SECONDS
    shared_root: Path | None = None
    others: tuple[TaskDefinition, ...] = ()
    planned: list[Fault] = field(default_factory=list[Fault])
    workers: list[FaultInjector] = field(default_factory=list[FaultInjector])
    reports: list[AttemptReport] = field(default_factory=list[AttemptReport])

    def worker(
        self, faults: Iterable[Fault] = (), *, policy: PolicySetting | None = None
    ) -> AttemptWorker:
        """A new process with these faults, each at one of its calls."""
        number = len(self.workers) + 1
        self.planned = list(faults)
        injector = FaultInjector(self.planned, outages=Outages(self.clock))
        self.workers.append(injector)
        around = Surroundings(
            self.clock,
            self.shared_root or self.servers.worker_root(number),
            self.servers.identities(number),
            self.servers.concurrency(),
        )
        settings = AttemptSettings(
            f"worker-{number}",
            publication=policy or self.policy,
            require_ownership=self.require_ownership,
            patience_seconds=self.patience_seconds,
        )
        # A test may have put another Conductor in the place of the one that knew the workflow.
        conductor = conductor_installation(self.conductor, WorkerHandle())
        worker = attempt_worker(
            faulty_installation(self.servers.lakefs, injector),
            faulty_installation(conductor, injector),
            around,
            [self.task, *self.others],
            settings,
        )
        inline = replace(worker.harness, body=InlineBody(worker.tasks, _ignored, NoStopOrder()))
        return replace(worker, harness=with_faults_within(inline, injector), reports=self.reports)

    async def drive(self, work: Awaitable[T]) -> T:
        """Run something to its end, moving the clock whenever everybody sleeps."""
        running = asyncio.ensure_future(work)
        for _ in range(TURNS_MAX):
            if running.done():
                break
            await asyncio.sleep(0)
            seconds = self.clock.seconds_to_next()
            if not running.done() and seconds is not None:
                await self.clock.let_pass(seconds)
        assert running.done(), "the attempt does not end"
        return running.result()

    async def attempt(self, worker: AttemptWorker) -> AttemptReport | None:
        """Poll and run one attempt; None when its process died or nothing waited."""
        try:
            record = await worker.poll(TASK)
            return None if record is None else await self.drive(worker.run(record))
        except (ProcessDied, UnavailableError, OutcomeUnknownError):
            return None

    async def report(self, *faults: Fault) -> AttemptReport:
        """Run one attempt that is to end, in a new process that meets each of these faults."""
        report = await self.report_of(self.worker(faults))
        left = [fault for fault in self.planned if not fault.moment.each_time]
        assert left == [], "the moment of a fault never came"
        return report

    async def report_of(self, worker: AttemptWorker) -> AttemptReport:
        """Run one attempt of this process that is to end."""
        report = await self.attempt(worker)
        assert report is not None, "the process died, or nothing waited"
        return report

    async def stand_still(self, worker: AttemptWorker) -> "asyncio.Future[AttemptReport]":
        """Run an attempt of the newest process until it stands still as a planned zombie does."""
        handle = self.workers[-1]
        record = await worker.poll(TASK)
        assert record is not None
        running = asyncio.ensure_future(worker.run(record))
        while not (handle.waits_for or running.done()):  # noqa: ASYNC110 - driven by hand
            await asyncio.sleep(0)
        return running

    async def lose_lease(self) -> None:
        """The response time-out of whoever worked passes, and Conductor schedules a retry."""
        self.clock.advance(self.response_seconds + 1)
        await self.operator.workflows.decide(self.workflow)

    def requests(self, number: int = 0) -> Counter[str]:
        """What a process asked the servers, without its own disk and task function."""
        calls = self.workers[number].calls
        return Counter(
            {name: calls[name] for name in calls if name.partition(".")[0] not in LOCAL_PORTS}
        )

    async def finish(self, attempts_max: int = ATTEMPTS_MAX) -> WorkflowRecord:
        """Let healthy workers and due time-outs bring the workflow to its end."""
        for _ in range(attempts_max):
            workflow = await self.read()
            if workflow.status is not WorkflowStatus.RUNNING:
                return workflow
            await self.attempt(self.worker())
            await self.lose_lease()
        return await self.read()


def reason_of(report: AttemptReport) -> str:
    """What an attempt told Conductor."""
    assert report.update is not None, report.error
    return str(report.update.reason)


async def at_each_request(
    root: Path,
    policy: PolicySetting,
    *,
    first: int = 1,
    **given: Any,  # noqa: ANN401 - fields of the harness
) -> AsyncIterator[tuple[int, AttemptHarness]]:
    """For each request of a healthy attempt its number, and a harness whose attempt waits for it.

    The first one is the poll.
    """
    healthy = await AttemptHarness(root / "healthy", policy, **given).started()
    assert (await healthy.report()).error is None
    await assert_accepted(healthy)
    for nth in range(first, healthy.requests().total() + 1):
        yield nth, await AttemptHarness(root / str(nth), policy, **given).started()
