"""How a worker ends: what a drain leaves to its end, what it abandons, and what breaks it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.task_bodies import abandoned_bodies_ended
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.adapters.system import SystemClock
from perago.app.telemetry.listeners import AttemptListener
from perago.app.worker.polling import PolledType, ServiceGate
from perago.app.worker.thread_body import ThreadBody
from perago.app.worker.worker import (
    KILL_SECONDS,
    Worker,
    WorkerEnd,
    WorkerParts,
    drain_reason,
)
from perago.domain.attempt import (
    AttemptStatus,
    PublishTimes,
    WorkflowStatus,
)
from perago.domain.policy import PolicySetting
from perago.ports.errors import UnavailableError
from perago.testing.faults import Fault, refuse, zombie

GRACE_SECONDS = 0.2


async def nothing_to_do() -> None:
    """A periodic job that has ended."""


def _failed(ask: Callable[[], Awaitable[None]], *, fraction: float = 1.0) -> ServiceGate:
    """The gate of a lakeFS that an attempt could not reach."""
    gate = ServiceGate("lakefs", ask, now=SystemClock().monotonic, fraction=lambda: fraction)
    gate.failed("an attempt could not reach it")
    return gate


async def started(
    harness: AttemptHarness,
    *faults: Fault,
    job: Coroutine[object, object, None],
    lakefs_gate: ServiceGate | None = None,
    slots: int = 1,
    grace_seconds: float | None = GRACE_SECONDS,
    listeners: Sequence[AttemptListener] = (),
) -> tuple[Worker, "asyncio.Task[WorkerEnd]"]:
    """A worker of the harness's task that runs, with a job beside it."""
    await harness.start()
    made = harness.worker(faults)
    bodies = ThreadBody({TASK: harness.task}, slots=slots)
    clock = SystemClock()
    surroundings = replace(made.harness, body=bodies, clock=clock)
    ask = surroundings.queue.check
    conductor = ServiceGate("conductor", ask, now=clock.monotonic, fraction=lambda: 1.0)
    # The tests of one slot want the row that they wait for to be polled whatever the gate says.
    gates = () if lakefs_gate is None or slots == 1 else (lakefs_gate,)
    worker = Worker(
        WorkerParts(
            ports=surroundings,
            bodies=bodies,
            tasks={TASK: harness.task},
            types=[PolledType(TASK, None, gates)],
            settings=made.settings,
            listeners=listeners,
            conductor_gate=conductor,
            lakefs_gate=lakefs_gate,
            periodic=[lambda: job],
            force_kill_seconds=grace_seconds,
        )
    )
    return worker, asyncio.create_task(worker.run())


async def until_paused(harness: AttemptHarness) -> None:
    async with asyncio.timeout(20):
        while not harness.workers[0].waits_for:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("call", ["branches.merge", "queue.complete"])
async def test_what_was_decided_comes_to_its_end_after_the_grace(tmp_path: Path, call: str) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    worker, running = await started(harness, zombie(before=call), job=nothing_to_do())
    await until_paused(harness)
    worker.drain()
    await asyncio.sleep(3 * GRACE_SECONDS)
    assert not running.done(), "the grace is for bodies"
    harness.workers[0].release()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    assert (await harness.read()).status is WorkflowStatus.COMPLETED
    assert len(harness.publications()) == 1
    assert harness.repository.branch_names() == {"main"}


async def test_a_body_that_goes_on_is_abandoned_and_its_row_is_handed_back_at_once(
    tmp_path: Path,
) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def wait(workspace: Path, run: int) -> None:
        del workspace, run
        begun.set()
        let_go.wait(30)

    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, body=wait)
    worker, running = await started(harness, job=nothing_to_do())
    try:
        assert await asyncio.to_thread(begun.wait, 20)
        worker.drain()
        assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    finally:
        let_go.set()
        await abandoned_bodies_ended()
    await assert_handed_back(harness)
    assert harness.publications() == []
    (row,) = (await harness.read()).attempts
    (line,) = await harness.operator.queue.read_log(row.snapshot.task_id)
    assert "status=HANDED_BACK" in line
    assert "reason=handed back (1 of 5): worker draining: the worker was told to stop" in line


def _facts(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, object]:
    (record,) = [each for each in caplog.records if each.msg == event]
    facts: dict[str, object] = vars(record)["perago"]
    return facts


@pytest.mark.parametrize("grace_seconds", [None, 7.0], ids=["without a setting", "set"])
async def test_the_grace_is_one_number_in_the_start_line_and_in_the_drain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, grace_seconds: float | None
) -> None:
    """That the page and the manifests have the numbers without a setting is in test_deploy."""
    caplog.set_level("INFO", "perago.worker")
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    worker, running = await started(harness, job=nothing_to_do(), grace_seconds=grace_seconds)
    async with asyncio.timeout(20):
        while (await harness.read()).status is not WorkflowStatus.COMPLETED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    grace = PublishTimes().shutdown_grace_seconds if grace_seconds is None else grace_seconds
    started_facts = _facts(caplog, "worker started")
    assert started_facts["grace_seconds"] == grace
    times = PublishTimes()
    after = times.merge_timeout_seconds + times.completion_timeout_seconds + KILL_SECONDS
    assert started_facts["termination_grace_period_seconds"] == int(grace + after) + 1
    assert _facts(caplog, "worker draining")["grace_seconds"] == grace
    assert f"the grace of {grace:g} s is over" in drain_reason(grace)


async def assert_handed_back(harness: AttemptHarness) -> None:
    """The one row waits in the queue, and its reason names the deploy and the setting."""
    (row,) = (await harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED
    assert (row.snapshot.retry_count, row.snapshot.poll_count) == (0, 1)
    grace = f"the grace of {GRACE_SECONDS} s"
    for part in ("worker draining", "deploy", grace, "PERAGO_SHUTDOWN_FORCE_KILL_AFTER"):
        assert part in str(row.reason)
    assert await harness.worker().poll(TASK) is not None


async def test_a_download_is_abandoned_after_the_grace_and_its_row_is_handed_back_at_once(
    tmp_path: Path,
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    download = zombie(before="objects.list_page")
    worker, running = await started(harness, download, job=nothing_to_do())
    await until_paused(harness)
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    await assert_handed_back(harness)
    assert harness.runs == 0
    assert not list((tmp_path / "1" / ".perago-attempts").iterdir())


async def test_what_was_lost_before_its_body_began_does_not_begin(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, response_seconds=1)
    download = zombie(before="objects.list_page")
    worker, running = await started(harness, download, job=nothing_to_do())
    await until_paused(harness)
    await harness.operator.workflows.terminate(harness.workflow, "not wanted")
    await asyncio.wait_for(worker.attempts.all_ended(), 20)  # a heartbeat tells the download
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    assert harness.runs == 0


async def test_what_was_lost_while_it_waits_for_lakefs_ends_and_leaves_its_slot_to_others(
    tmp_path: Path,
) -> None:
    async def refused() -> None:
        raise UnavailableError("lakeFS refused the connection")

    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, response_seconds=1)
    gate = _failed(refused)
    worker, running = await started(harness, job=nothing_to_do(), lakefs_gate=gate)
    async with asyncio.timeout(20):
        while not worker.attempts.running or worker.budget.taken:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert worker.budget.free == 1, "the slot is lent while the attempt waits"
    await harness.operator.workflows.terminate(harness.workflow, "not wanted")
    await asyncio.wait_for(worker.attempts.all_ended(), 20)
    assert (worker.budget.taken, harness.runs) == (0, 0)
    assert not gate.closed, "an attempt that was told to stop has asked lakeFS for nothing"
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED


async def test_an_error_in_a_wait_for_lakefs_gives_the_slot_back_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks() -> None:
        raise LookupError("no such question")

    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    gate = _failed(breaks, fraction=0.0)
    worker, running = await started(harness, job=nothing_to_do(), lakefs_gate=gate)
    assert await asyncio.wait_for(running, 20) is WorkerEnd.BROKEN
    assert worker.budget.taken == 0
    (broken,) = [each for each in caplog.records if each.msg == "worker broken"]
    assert broken.exc_info is not None
    assert broken.exc_info[0] is LookupError


@pytest.mark.parametrize(
    ("fault", "closed"),
    [(None, True), (refuse("objects.list_page", UnavailableError("its store is down")), False)],
    ids=["served", "not served"],
)
async def test_an_attempt_that_lakefs_served_closes_the_circuit(
    tmp_path: Path,
    fault: Fault | None,
    closed: bool,  # noqa: FBT001
) -> None:
    async def answers() -> None:
        """The health question is answered in either case."""

    policy = PolicySetting.HEAD_PARENT
    harness = AttemptHarness(tmp_path, policy, fenced=False, patience_seconds=0)
    gate = _failed(answers)
    faults = [] if fault is None else [fault]
    worker, running = await started(harness, *faults, job=nothing_to_do(), lakefs_gate=gate)
    async with asyncio.timeout(20):
        while not worker.attempts.running:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    assert gate.closed is closed


async def test_a_part_that_ends_with_an_error_has_broken_the_worker(tmp_path: Path) -> None:
    async def breaks() -> None:
        await asyncio.sleep(0.05)
        raise LookupError("no such part")

    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    worker, running = await started(harness, job=breaks())
    assert await asyncio.wait_for(running, 20) is WorkerEnd.BROKEN
    assert not worker.is_live
