"""What a worker does with an attempt that waits for lakeFS: circuit, drain, loss, and who hears."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.kit_cases import counting_task
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.worker.test_worker_life import GRACE_SECONDS, nothing_to_do, started

from perago.adapters.system import SystemClock
from perago.app.attempt.context import Attempt
from perago.app.authoring.task_declaration import task, task_of
from perago.app.telemetry.listeners import WaitingAttempts, WaitLines
from perago.app.telemetry.metrics import AttemptMetrics, Metrics
from perago.app.worker.attempts import Heartbeat, HeartbeatLease
from perago.app.worker.polling import Circuit, ServiceGate
from perago.app.worker.worker import WorkerEnd
from perago.domain.attempt import AttemptStatus, Current, FenceVerdict, Stale
from perago.domain.policy import PolicySetting
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.ports.workspace import Phase
from perago.testing import PeragoEnvironment
from perago.testing.faults import Fault, always, refuse

AWAY = UnavailableError("connection refused")


def _away_for_ever() -> list[Fault]:
    return [always(refuse("branches.create", AWAY))]


async def _until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def _gate(ask: Callable[[], Awaitable[None]]) -> ServiceGate:
    return ServiceGate("lakefs", ask, now=SystemClock().monotonic, fraction=lambda: 1.0)


async def _answers() -> None:
    """The health question."""


async def test_a_wait_opens_the_circuit_and_a_drain_ends_it_after_the_grace(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    gate = _gate(_answers)
    worker, running = await started(
        harness, *_away_for_ever(), job=nothing_to_do(), lakefs_gate=gate
    )
    await _until(lambda: gate.state is Circuit.OPEN)
    assert not worker.is_ready
    assert worker.attempts.running, "the attempt still waits"
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED
    row = (await harness.read()).attempts[0]
    assert row.snapshot.status is AttemptStatus.SCHEDULED, "handed back: no retry is spent"
    assert "for lakeFS, until worker draining" in str(row.reason)
    assert "PRG-L008" in str(row.reason)
    assert harness.runs == 1


def _has_beaten(calls: Counter[str], times: int) -> bool:
    return calls["queue.extend_lease"] >= times


async def test_beats_go_on_while_an_attempt_waits_for_lakefs(tmp_path: Path) -> None:
    """For several times its response time-out, and Conductor still counts it."""
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, response_seconds=1)
    worker, running = await started(harness, *_away_for_ever(), job=nothing_to_do())
    calls = harness.workers[0].calls
    await _until(lambda: calls["branches.create"] > 1)
    for beats in range(1, 5):
        await _until(partial(_has_beaten, calls, beats))
        harness.clock.advance(0.9)
        await harness.operator.workflows.decide(harness.workflow)
    (row,) = (await harness.read()).attempts
    assert (row.snapshot.status, harness.runs) == (AttemptStatus.IN_PROGRESS, 1)
    assert worker.attempts.running
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED


async def test_while_an_attempt_waits_for_lakefs_other_rows_stay_in_the_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For hosts that reach it, although this worker has a free slot; the log says so."""
    is_away = [True]

    async def look() -> None:
        if is_away:
            raise AWAY

    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False)
    gate = _gate(look)
    worker, running = await started(
        harness, *_away_for_ever(), job=nothing_to_do(), lakefs_gate=gate, slots=2
    )
    await _until(lambda: gate.state is Circuit.OPEN)
    await asyncio.sleep(1.5)  # the poll that was open then has ended
    second = await harness.operator.workflows.start("flow", {"workspace": harness.workspace()})
    polls = harness.workers[0].calls["queue.poll"]
    await asyncio.sleep(2.0)  # the gate looks more than once
    assert (len(worker.attempts.running), worker.budget.free) == (1, 1)
    assert harness.workers[0].calls["queue.poll"] == polls
    row = await harness.operator.workflows.read(second)
    assert row is not None
    assert row.attempts[0].snapshot.status is AttemptStatus.SCHEDULED
    (opened,) = [each for each in caplog.records if each.msg == "circuit open: lakefs"]
    assert vars(opened)["perago"]["not_polled"] == [TASK]
    is_away.clear()
    await _until(lambda: harness.workers[0].calls["queue.poll"] > polls)  # lakeFS answers again
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED


class Heard:
    """The phases of all attempts, with what each waits for."""

    def __init__(self) -> None:
        self.phases: list[tuple[Phase, object]] = []

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Remember it."""
        del attempt, seconds
        self.phases.append((phase, facts.get("waited_for")))


async def test_a_row_that_came_as_lakefs_failed_is_reported_and_not_kept_for_ever(
    tmp_path: Path,
) -> None:
    async def look() -> None:
        raise AWAY

    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, patience_seconds=1.5)
    gate, heard = _gate(look), Heard()
    gate.failed("lakeFS refused the connection")
    first = ("repositories.read", "branches.head", "commits.read", "objects.read", "tags.read")
    faults = [refuse(call, AWAY, nth=nth) for call in first for nth in range(1, 20)]
    worker, running = await started(
        harness,
        *faults,
        job=nothing_to_do(),
        lakefs_gate=gate,
        listeners=[heard],
    )
    await _until(lambda: bool(worker.attempts.running))
    await asyncio.wait_for(worker.attempts.all_ended(), 20)
    (row,) = (await harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED, row.reason
    assert "PERAGO_PATIENCE was over" in str(row.reason)
    waits = [each for each in heard.phases if each[0] in {Phase.WAITING, Phase.WAITED}]
    begin = "the begin of the attempt"
    assert waits[:2] == [(Phase.WAITING, begin), (Phase.WAITED, begin)]
    assert Phase.HANDED_BACK in [phase for phase, _ in heard.phases]
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED


class Params(BaseModel):
    """Nothing to choose."""


class Done(BaseModel):
    """Nothing to say."""


async def test_a_drain_lets_the_end_of_an_attempt_wait_for_conductor(tmp_path: Path) -> None:
    """Also without a workspace; probes and metrics have that wait as they have the others."""

    @task(name=TASK, owner_email="data@example.com")
    def free(params: Params) -> Done:
        del params
        return Done()

    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    harness.task = task_of(free)
    waiting, metrics = WaitingAttempts(), Metrics()
    calls = ("queue.complete", "queue.read_attempt", "queue.read_workflow")
    worker, running = await started(
        harness,
        *[refuse(call, AWAY, nth=nth) for call in calls for nth in range(1, 6)],
        job=nothing_to_do(),
        listeners=[waiting, AttemptMetrics(metrics)],
    )
    await _until(lambda: waiting.lines() == ["attempts that wait for Conductor: 1"])
    worker.drain()
    await asyncio.sleep(3 * GRACE_SECONDS)
    assert not running.done(), "the grace is for task functions"
    assert await asyncio.wait_for(running, 30) is WorkerEnd.DRAINED
    (row,) = (await harness.read()).attempts
    assert (row.snapshot.status, row.snapshot.poll_count) == (AttemptStatus.COMPLETED, 1)
    assert waiting.lines() == []
    count = f'runtime_service_wait_seconds_count{{service="Conductor",task_name="{TASK}"}} 1'
    assert count in metrics.text()


async def test_an_attempt_that_is_lost_stops_waiting_and_sends_nothing(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, response_seconds=1)
    worker, running = await started(harness, *_away_for_ever(), job=nothing_to_do())
    await _until(lambda: harness.workers[0].calls["branches.create"] > 2)
    await harness.operator.workflows.terminate(harness.workflow, "not wanted")
    await asyncio.wait_for(worker.attempts.all_ended(), 20)
    assert harness.workers[0].calls["queue.complete"] == 0
    worker.drain()
    assert await asyncio.wait_for(running, 20) is WorkerEnd.DRAINED


async def test_the_first_beat_after_an_outage_is_sent_at_once() -> None:
    sent: list[float] = []
    clock = SystemClock()

    async def send() -> None:
        sent.append(clock.monotonic())
        if len(sent) in {1, 2}:
            raise UnavailableError("connection refused")
        if len(sent) == 3:
            raise OutcomeUnknownError("no answer")

    async def look() -> FenceVerdict:
        return Current()

    def lost(stale: Stale) -> None:
        raise AssertionError(stale)

    heartbeat = Heartbeat(send, look, lost, pause_seconds=1.0, fraction=lambda: 0.05)
    lease = HeartbeatLease(heartbeat, clock).start()
    await _until(lambda: len(sent) == 4)
    await asyncio.sleep(0.05)
    beat = lease.last_beat
    await lease.end()
    assert sent[3] - sent[0] < 1.0, "three pauses of 0.2 s, and not of 1 s"
    assert beat == pytest.approx(sent[3], abs=0.01)


async def test_a_look_without_an_answer_holds_up_no_beat() -> None:
    """Conductor swallows both, and is back before the look is given up by its client."""
    sent: list[float] = []
    clock = SystemClock()

    async def send() -> None:
        sent.append(clock.monotonic())
        if len(sent) == 1:
            raise OutcomeUnknownError("no answer")

    async def look() -> FenceVerdict:
        if len(sent) == 1:
            await asyncio.sleep(60)
        return Current()

    def lost(stale: Stale) -> None:
        raise AssertionError(stale)

    heartbeat = Heartbeat(send, look, lost, pause_seconds=0.5, fraction=lambda: 0.05)
    lease = HeartbeatLease(heartbeat, clock).start()
    await _until(lambda: len(sent) == 2)
    await lease.end()
    assert lease.last_beat == pytest.approx(sent[1], abs=0.01)


async def _some_attempt() -> Attempt:
    found: list[Attempt] = []

    class Finder:
        def phase(
            self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
        ) -> None:
            del phase, facts, seconds
            found.append(attempt)

    with PeragoEnvironment() as env:
        env.listen(Finder())
        await env.run(counting_task()[0], await env.repository())
    return found[0]


WAITING = {"service": "lakeFS", "waited_for": "x", "error": "connection refused"}
WAITED = {"service": "lakeFS", "waited_seconds": 20.5, "failures": 9, "lasted": True}


async def test_probes_metrics_and_the_log_of_the_task_hear_of_a_wait() -> None:
    attempt, waiting, metrics = await _some_attempt(), WaitingAttempts(), Metrics()
    lines: list[str] = []
    listeners = [waiting, AttemptMetrics(metrics), WaitLines(lines.append)]
    for each in listeners:
        each.phase(attempt, Phase.WAITING, WAITING, 1.0)
    assert waiting.lines() == ["attempts that wait for lakeFS: 1"]
    for each in listeners:
        each.phase(attempt, Phase.WAITED, WAITED, 20.5)
    assert waiting.lines() == []
    assert [line.partition(" ")[2].partition(" ")[2] for line in lines] == [
        "waits for lakeFS: connection refused",
        "waited 20.5 s for lakeFS",
    ]
    assert 'runtime_service_wait_seconds_sum{service="lakeFS",task_name="clean"} 20.5' in (
        metrics.text()
    )


async def test_a_conductor_that_is_away_is_sent_no_line_before_it_is_back() -> None:
    attempt, lines = await _some_attempt(), list[str]()
    log = WaitLines(lines.append)
    log.phase(attempt, Phase.WAITING, {**WAITING, "service": "Conductor"}, 1.0)
    log.phase(attempt, Phase.WAITED, {**WAITED, "lasted": False}, 0.2)
    assert lines == []
    log.phase(attempt, Phase.WAITED, {**WAITED, "service": "Conductor"}, 20.5)
    assert len(lines) == 1


async def test_a_wait_that_ends_with_its_attempt_is_forgotten() -> None:
    attempt, waiting = await _some_attempt(), WaitingAttempts()
    waiting.phase(attempt, Phase.WAITING, WAITING, 1.0)
    waiting.phase(attempt, Phase.ENDED, {"status": "FAILED", "recorded": "recorded"}, 30.0)
    assert waiting.lines() == []
