"""The end of an attempt in Conductor: 200 proves nothing, only the row that is read back does."""

from dataclasses import replace
from pathlib import Path
from typing import final

import pytest
from tests.attempt_worlds import AttemptWorker
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, Params, reason_of

from perago.adapters.memory.system import VirtualClock
from perago.app.attempt.complete import Recorded, complete, completion_deadline
from perago.app.attempt.context import Attempt
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import PublishBudget, TaskControls
from perago.domain.attempt import AttemptRecord, AttemptStatus
from perago.domain.policy import PolicySetting
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import (
    AccessDeniedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)
from perago.ports.task_body import Lease, NoLease
from perago.testing.faults import (
    Fault,
    always,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
)

COMPLETE = "queue.complete"


async def _started(tmp_path: Path) -> FaultWorld:
    return await FaultWorld(tmp_path, PolicySetting.SETTLED).started()


async def _poll(worker: AttemptWorker) -> AttemptRecord:
    record = await worker.poll(TASK)
    assert record is not None
    return record


def _dispatch(world: FaultWorld, worker: AttemptWorker, record: AttemptRecord) -> Attempt:
    identities = worker.world.identities
    return Attempt(world.task, record, identities.new_execution_id(), worker.settings)


async def _end(
    world: FaultWorld,
    worker: AttemptWorker,
    record: AttemptRecord,
    *,
    result: str = "mine",
    status: AttemptStatus = AttemptStatus.COMPLETED,
    began: float | None = None,
) -> Recorded:
    """Send one end of a polled row and read it back."""
    dispatch = _dispatch(world, worker, record)
    output = {"result": result} if status is AttemptStatus.COMPLETED else {}
    update = TerminalUpdate(record.snapshot, worker.settings.worker_id, status, output)
    began = world.clock.monotonic() if began is None else began
    return await world.drive(complete(worker.world, dispatch, update, NoLease(), began=began))


@pytest.mark.parametrize(
    "status",
    [
        AttemptStatus.COMPLETED,
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
    ],
    ids=str,
)
async def test_an_accepted_end_is_recorded_though_its_retry_waits_already(
    tmp_path: Path, status: AttemptStatus
) -> None:
    world = await _started(tmp_path)
    worker = world.worker()
    assert await _end(world, worker, await _poll(worker), status=status) is Recorded.RECORDED


async def test_an_end_after_the_row_timed_out_is_superseded(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    worker = world.worker()
    record = await _poll(worker)
    await world.lose_lease()
    assert await _end(world, worker, record) is Recorded.SUPERSEDED


@pytest.mark.parametrize(
    "refusal", [RequestRefusedError("too large"), AccessDeniedError("token expired")], ids=repr
)
async def test_an_end_that_is_always_refused_stays_unknown_and_keeps_the_decision(
    tmp_path: Path, refusal: ServiceError
) -> None:
    world = await _started(tmp_path)
    worker = world.worker([always(refuse(COMPLETE, refusal))])

    report = await world.report_of(worker)

    assert report.recorded is Recorded.UNKNOWN
    assert any(name.startswith("perago-staging-") for name in world.repository.branch_names())
    assert list((world.root / "1").rglob(".perago-attempt.json")) == []


@pytest.mark.parametrize("policy", [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT], ids=str)
async def test_a_success_that_conductor_does_not_take_is_reported_as_a_failure(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """A refusal is an answer: to send the same again would hold the row until its time-out."""
    world = await FaultWorld(tmp_path, policy).started()
    worker = world.worker([refuse(COMPLETE, RequestRefusedError("413 too large"))])

    report = await world.report_of(worker)

    assert report.recorded is Recorded.RECORDED
    assert report.status == AttemptStatus.FAILED
    assert "413 too large" in reason_of(report)
    assert "PRG-R004" in reason_of(report)
    assert world.workers[0].calls[COMPLETE] == 2
    assert world.clock.monotonic() == 0
    await world.finish()
    assert len(world.publications()) == 1


async def test_a_refusal_after_an_answer_that_was_lost_does_not_fail_what_was_taken(
    tmp_path: Path,
) -> None:
    world = await _started(tmp_path)
    silent = refuse("queue.read_attempt", UnavailableError("away"))
    again = refuse(COMPLETE, RequestRefusedError("it has ended"), nth=2)
    report = await world.report(lose_answer(COMPLETE), silent, again)
    assert report.error is None
    assert report.recorded is Recorded.RECORDED


async def test_a_failure_that_conductor_does_not_take_either_is_not_repeated(
    tmp_path: Path,
) -> None:
    world = await _started(tmp_path)
    refusals = [always(refuse(COMPLETE, RequestRefusedError("no")))]
    report = await world.report(*refusals)
    assert report.recorded is Recorded.UNKNOWN
    assert world.workers[0].calls[COMPLETE] == 2


async def test_an_end_that_is_refused_once_is_sent_again(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    worker = world.worker([refuse(COMPLETE, AccessDeniedError("token expired"))])
    report = await world.report_of(worker)
    assert report.recorded is Recorded.RECORDED
    assert world.repository.branch_names() == {"main"}


async def test_a_read_back_that_is_refused_is_asked_again(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    worker = world.worker([refuse("queue.read_attempt", AccessDeniedError("token expired"))])
    report = await world.report_of(worker)
    assert report.recorded is Recorded.RECORDED


async def test_another_end_of_the_same_row_by_the_same_worker_is_not_mine(tmp_path: Path) -> None:
    """A redelivered row may be held twice by one worker; the second one ended it."""
    world = await _started(tmp_path)
    worker = world.worker()
    first = await _poll(worker)
    await world.operator.workflows.release_without_result(first)
    second = await _poll(worker)
    assert second.snapshot.task_id == first.snapshot.task_id
    assert await _end(world, worker, second, result="second") is Recorded.RECORDED
    assert await _end(world, worker, first, result="first") is Recorded.SUPERSEDED


async def test_my_end_of_a_redelivered_row_is_recorded(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    worker = world.worker()
    first = await _poll(worker)
    await world.operator.workflows.release_without_result(first)
    await _poll(worker)
    assert await _end(world, worker, first) is Recorded.RECORDED


async def test_an_end_is_not_sent_again_to_a_row_that_was_handed_out_anew(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    worker = world.worker([lose_request(COMPLETE)])
    first = await _poll(worker)
    await world.operator.workflows.release_without_result(first)
    await _poll(worker)
    assert await _end(world, worker, first) is Recorded.SUPERSEDED
    assert world.workers[0].calls[COMPLETE] == 1


async def test_a_row_that_waits_to_be_handed_out_anew_is_left_alone(tmp_path: Path) -> None:
    """A failure of the old execution would end the new one before it began."""
    world = await _started(tmp_path)

    async def release() -> None:
        (row,) = (await world.read()).attempts
        await world.operator.workflows.release_without_result(row)

    report = await world.report(meanwhile(release, before="fence"))

    assert report.update is None
    assert report.recorded is Recorded.SUPERSEDED
    (row,) = (await world.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED


async def test_the_heartbeats_are_joined_before_the_end_is_sent(tmp_path: Path) -> None:
    world = await _started(tmp_path)
    told: list[str] = []
    faults: list[Fault] = [meanwhile(lambda: told.append("sent"), before=COMPLETE)]
    worker = world.worker(faults)
    record = await _poll(worker)

    class Beating(Lease):
        @property
        def last_beat(self) -> None:
            return

        async def end(self) -> None:
            told.append("joined")

    dispatch = _dispatch(world, worker, record)
    update = TerminalUpdate(
        record.snapshot, worker.settings.worker_id, AttemptStatus.COMPLETED, {"result": {}}
    )
    now = world.clock.monotonic()
    await world.drive(complete(worker.world, dispatch, update, Beating(), began=now))
    assert told == ["joined", "sent"]


@task(name=TASK, owner_email="data@example.com")
def free(params: Params) -> Params:
    """A task that publishes nothing."""
    return params


@pytest.mark.parametrize(
    ("seconds", "faults", "recorded", "reads"),
    [
        (0.0, [], Recorded.ACKNOWLEDGED, 0),
        (0.9, [], Recorded.ACKNOWLEDGED, 0),
        (1.0, [], Recorded.RECORDED, 1),
        (0.0, [lose_answer(COMPLETE)], Recorded.RECORDED, 1),
        (0.0, [lose_request(COMPLETE)], Recorded.ACKNOWLEDGED, 1),
    ],
    ids=["short", "a moment less", "a second", "answer lost", "request lost"],
)
async def test_what_published_nothing_at_once_is_read_back_only_when_no_answer_came(
    tmp_path: Path, seconds: float, faults: list[Fault], recorded: Recorded, reads: int
) -> None:
    world = await _started(tmp_path)
    worker = world.worker(faults)
    world.task = vars(free)["__perago_task__"]
    record = await _poll(worker)
    began = world.clock.monotonic()
    world.clock.advance(seconds)
    assert await _end(world, worker, record, began=began) is recorded
    assert world.workers[0].calls["queue.read_attempt"] == reads
    (row,) = (await world.read()).attempts
    assert row.snapshot.status is AttemptStatus.COMPLETED


async def test_a_long_attempt_that_was_revoked_as_it_ended_says_so_though_it_published_nothing(
    tmp_path: Path,
) -> None:
    """Between the look and the update there is a moment in which anything may happen."""
    world = await _started(tmp_path)
    revoked = meanwhile(lambda: world.conductor.terminate(world.workflow, "over"), before=COMPLETE)
    worker = world.worker([revoked])
    world.task = vars(free)["__perago_task__"]
    record = await _poll(worker)
    world.clock.advance(2)
    assert await _end(world, worker, record, began=0.0) is Recorded.SUPERSEDED


@pytest.mark.parametrize(("response_seconds", "looks"), [(60, 0), (2, 1)])
async def test_an_attempt_that_heartbeats_may_have_lost_already_is_looked_at_however_young(
    tmp_path: Path, response_seconds: int, looks: int
) -> None:
    world = await _started(tmp_path)
    worker = world.worker()
    world.task = vars(free)["__perago_task__"]
    record = replace(await _poll(worker), response_timeout_seconds=response_seconds)
    began = world.clock.monotonic()
    world.clock.advance(0.7)
    await _end(world, worker, record, began=began)
    assert world.workers[0].calls["queue.read_workflow"] == looks


BUDGET = PublishBudget(
    observed_merge_p99_seconds=1,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=5,
    conductor_completion_timeout_seconds=40,
    worker_shutdown_grace_seconds=5,
    heartbeat_interval_seconds=5,
)


@pytest.mark.parametrize(
    ("lease", "budget", "beat", "deadline"),
    [
        (60, None, 995.0, 1055.0),
        (600, None, 995.0, 1595.0),
        (60, None, 930.0, 990.0),
        (60, None, None, 1060.0),
        (0, None, 995.0, 1060.0),
        (60, BUDGET, 995.0, 1040.0),
        (60, BUDGET, 950.0, 1010.0),
        (60, BUDGET, None, 1040.0),
        (0, BUDGET, 995.0, 1040.0),
    ],
    ids=[
        "lease",
        "long lease",
        "lease over",
        "nothing beats",
        "no lease",
        "budget",
        "lease before budget",
        "budget, nothing beats",
        "budget, no lease",
    ],
)
async def test_an_end_is_tried_until_the_last_beat_and_the_response_time_out(
    tmp_path: Path,
    lease: int,
    budget: PublishBudget | None,
    beat: float | None,
    deadline: float,
) -> None:
    world = await _started(tmp_path)
    worker = world.worker()
    record = replace(await _poll(worker), response_timeout_seconds=lease)
    controls = TaskControls(publish_budget=budget)
    world.task = replace(world.task, controls=controls)
    dispatch = _dispatch(world, worker, record)
    assert completion_deadline(dispatch, now=1000.0, beat=beat) == deadline


@final
class LongLease(Lease):
    """It was answered just before its end."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    @property
    def last_beat(self) -> float:
        """Now."""
        return self._clock.monotonic()

    async def end(self) -> None:
        """Nothing is under way."""


async def test_a_conductor_that_is_gone_for_minutes_gets_the_end_all_the_same(
    tmp_path: Path,
) -> None:
    refusals = [
        refuse(call, UnavailableError("nobody there"), nth=nth)
        for call in (COMPLETE, "queue.read_attempt")
        for nth in range(1, 500)
    ]
    world = await _started(tmp_path)
    worker = world.worker(refusals)
    record = replace(await _poll(worker), response_timeout_seconds=3000)
    began = world.clock.monotonic()
    dispatch = _dispatch(world, worker, record)
    update = TerminalUpdate(
        record.snapshot, worker.settings.worker_id, AttemptStatus.COMPLETED, {"result": {}}
    )
    end = complete(worker.world, dispatch, update, LongLease(world.clock), began=began)
    assert await world.drive(end) is Recorded.RECORDED
    assert world.clock.monotonic() - began > 2400
