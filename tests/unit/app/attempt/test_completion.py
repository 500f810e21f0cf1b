"""The end of an attempt in Conductor: 200 proves nothing, only the row that is read back does."""

from dataclasses import replace
from pathlib import Path
from typing import final

import pytest
from tests.attempt_workers import AttemptWorker
from tests.redelivery import release
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params

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


async def _started(tmp_path: Path) -> AttemptHarness:
    return await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()


async def _scene(tmp_path: Path) -> AttemptScene:
    return await AttemptScene(tmp_path, PolicySetting.SETTLED).started()


async def _poll(worker: AttemptWorker) -> AttemptRecord:
    record = await worker.poll(TASK)
    assert record is not None
    return record


def _dispatch(harness: AttemptHarness, worker: AttemptWorker, record: AttemptRecord) -> Attempt:
    execution_id = worker.harness.identities.new_execution_id()
    return Attempt(worker.harness, harness.task, record, execution_id, worker.settings)


async def _end(
    harness: AttemptHarness,
    worker: AttemptWorker,
    record: AttemptRecord,
    *,
    result: str = "mine",
    status: AttemptStatus = AttemptStatus.COMPLETED,
    began: float | None = None,
) -> Recorded:
    """Send one end of a polled row and read it back."""
    dispatch = _dispatch(harness, worker, record)
    output = {"result": result} if status is AttemptStatus.COMPLETED else {}
    update = TerminalUpdate(record.snapshot, worker.settings.worker_id, status, output)
    began = harness.clock.monotonic() if began is None else began
    return await harness.drive(complete(dispatch, update, NoLease(), began=began))


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
    harness = await _started(tmp_path)
    worker = harness.worker()
    assert await _end(harness, worker, await _poll(worker), status=status) is Recorded.RECORDED


async def test_an_end_after_the_row_timed_out_is_superseded(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    worker = harness.worker()
    record = await _poll(worker)
    await harness.lose_lease()
    assert await _end(harness, worker, record) is Recorded.SUPERSEDED


@pytest.mark.parametrize(
    "refusal", [RequestRefusedError("too large"), AccessDeniedError("token expired")], ids=repr
)
async def test_an_end_that_is_always_refused_stays_unknown_and_keeps_the_decision(
    tmp_path: Path, refusal: ServiceError
) -> None:
    scene = await _scene(tmp_path)

    story = await scene.next_attempt(always(refuse(COMPLETE, refusal)))

    assert story.recorded == Recorded.UNKNOWN
    assert any(name.startswith("perago-staging-") for name in scene.repository.branch_names())
    assert scene.directories() == []


@pytest.mark.parametrize("policy", [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT], ids=str)
async def test_a_success_that_conductor_does_not_take_is_reported_as_a_failure(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """A refusal is an answer: to send the same again would hold the row until its time-out."""
    scene = await AttemptScene(tmp_path, policy).started()

    story = await scene.next_attempt(refuse(COMPLETE, RequestRefusedError("413 too large")))

    assert story.recorded == Recorded.RECORDED
    assert story.status == AttemptStatus.FAILED
    assert "413 too large" in str(story.reason)
    assert "PRG-R004" in str(story.reason)
    assert scene.env.seconds == 0
    await scene.finished()
    assert len(scene.publications()) == 1


async def test_a_refusal_after_an_answer_that_was_lost_does_not_fail_what_was_taken(
    tmp_path: Path,
) -> None:
    scene = await _scene(tmp_path)
    silent = refuse("queue.read_attempt", UnavailableError("away"))
    again = refuse(COMPLETE, RequestRefusedError("it has ended"), nth=2)
    story = await scene.next_attempt(lose_answer(COMPLETE), silent, again)
    assert (story.status, story.recorded) == (AttemptStatus.COMPLETED, Recorded.RECORDED)


async def test_a_failure_that_conductor_does_not_take_either_is_not_repeated(
    tmp_path: Path,
) -> None:
    harness = await _started(tmp_path)
    refusals = [always(refuse(COMPLETE, RequestRefusedError("no")))]
    report = await harness.report(*refusals)
    assert report.recorded is Recorded.UNKNOWN
    assert harness.workers[0].calls[COMPLETE] == 2


async def test_an_end_that_is_refused_once_is_sent_again(tmp_path: Path) -> None:
    scene = await _scene(tmp_path)
    story = await scene.next_attempt(refuse(COMPLETE, AccessDeniedError("token expired")))
    assert story.recorded == Recorded.RECORDED
    assert scene.repository.branch_names() == {"main"}


async def test_a_read_back_that_is_refused_is_asked_again(tmp_path: Path) -> None:
    scene = await _scene(tmp_path)
    refused = refuse("queue.read_attempt", AccessDeniedError("token expired"))
    story = await scene.next_attempt(refused)
    assert story.recorded == Recorded.RECORDED


async def test_another_end_of_the_same_row_by_the_same_worker_is_not_mine(tmp_path: Path) -> None:
    """A redelivered row may be held twice by one worker; the second one ended it."""
    harness = await _started(tmp_path)
    worker = harness.worker()
    first = await _poll(worker)
    await release(harness.operator.queue, first)
    second = await _poll(worker)
    assert second.snapshot.task_id == first.snapshot.task_id
    assert await _end(harness, worker, second, result="second") is Recorded.RECORDED
    assert await _end(harness, worker, first, result="first") is Recorded.SUPERSEDED


async def test_my_end_of_a_redelivered_row_is_recorded(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    worker = harness.worker()
    first = await _poll(worker)
    await release(harness.operator.queue, first)
    await _poll(worker)
    assert await _end(harness, worker, first) is Recorded.RECORDED


async def test_an_end_is_not_sent_again_to_a_row_that_was_handed_out_anew(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    worker = harness.worker([lose_request(COMPLETE)])
    first = await _poll(worker)
    await release(harness.operator.queue, first)
    await _poll(worker)
    assert await _end(harness, worker, first) is Recorded.SUPERSEDED
    assert harness.workers[0].calls[COMPLETE] == 1


async def test_a_row_that_waits_to_be_handed_out_anew_is_left_alone(tmp_path: Path) -> None:
    """A failure of the old execution would end the new one before it began."""
    scene = await _scene(tmp_path)

    async def redeliver() -> None:
        (row,) = (await scene.read()).attempts
        await release(scene.operator.queue, row)

    story = await scene.next_attempt(meanwhile(redeliver, before="fence"))

    assert (story.status, story.recorded) == ("NOT SENT", Recorded.SUPERSEDED)
    (row,) = (await scene.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED


async def test_the_heartbeats_are_joined_before_the_end_is_sent(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    told: list[str] = []
    faults: list[Fault] = [meanwhile(lambda: told.append("sent"), before=COMPLETE)]
    worker = harness.worker(faults)
    record = await _poll(worker)

    class Beating(Lease):
        @property
        def last_beat(self) -> None:
            return

        async def end(self) -> None:
            told.append("joined")

    dispatch = _dispatch(harness, worker, record)
    update = TerminalUpdate(
        record.snapshot, worker.settings.worker_id, AttemptStatus.COMPLETED, {"result": {}}
    )
    now = harness.clock.monotonic()
    await harness.drive(complete(dispatch, update, Beating(), began=now))
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
    harness = await _started(tmp_path)
    worker = harness.worker(faults)
    harness.task = vars(free)["__perago_task__"]
    record = await _poll(worker)
    began = harness.clock.monotonic()
    harness.clock.advance(seconds)
    assert await _end(harness, worker, record, began=began) is recorded
    assert harness.workers[0].calls["queue.read_attempt"] == reads
    (row,) = (await harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.COMPLETED


async def test_a_long_attempt_that_was_revoked_as_it_ended_says_so_though_it_published_nothing(
    tmp_path: Path,
) -> None:
    """Between the look and the update there is a moment in which anything may happen."""
    harness = await _started(tmp_path)
    revoked = meanwhile(
        lambda: harness.conductor.terminate(harness.workflow, "over"), before=COMPLETE
    )
    worker = harness.worker([revoked])
    harness.task = vars(free)["__perago_task__"]
    record = await _poll(worker)
    harness.clock.advance(2)
    assert await _end(harness, worker, record, began=0.0) is Recorded.SUPERSEDED


@pytest.mark.parametrize(("response_seconds", "looks"), [(60, 0), (2, 1)])
async def test_an_attempt_that_heartbeats_may_have_lost_already_is_looked_at_however_young(
    tmp_path: Path, response_seconds: int, looks: int
) -> None:
    harness = await _started(tmp_path)
    worker = harness.worker()
    harness.task = vars(free)["__perago_task__"]
    record = replace(await _poll(worker), response_timeout_seconds=response_seconds)
    began = harness.clock.monotonic()
    harness.clock.advance(0.7)
    await _end(harness, worker, record, began=began)
    assert harness.workers[0].calls["queue.read_workflow"] == looks


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
    harness = await _started(tmp_path)
    worker = harness.worker()
    record = replace(await _poll(worker), response_timeout_seconds=lease)
    controls = TaskControls(publish_budget=budget)
    harness.task = replace(harness.task, controls=controls)
    dispatch = _dispatch(harness, worker, record)
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
    harness = await _started(tmp_path)
    worker = harness.worker(refusals)
    record = replace(await _poll(worker), response_timeout_seconds=3000)
    began = harness.clock.monotonic()
    dispatch = _dispatch(harness, worker, record)
    update = TerminalUpdate(
        record.snapshot, worker.settings.worker_id, AttemptStatus.COMPLETED, {"result": {}}
    )
    end = complete(dispatch, update, LongLease(harness.clock), began=began)
    assert await harness.drive(end) is Recorded.RECORDED
    assert harness.clock.monotonic() - began > 2400
