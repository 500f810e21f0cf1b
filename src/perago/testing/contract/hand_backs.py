"""Laws of `TaskQueue`: rows that go back to their queue and are handed out again."""

from dataclasses import replace

import pytest

from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.ports.conductor import HandBack
from perago.ports.errors import MissingError
from perago.testing.contract.conductor_under_test import (
    LOOKS_MAX,
    PAUSE_SECONDS,
    TIMEOUT_SECONDS,
    ConductorUnderTest,
    define_task,
    define_workflow,
    fail,
    finish,
    poll_now,
    poll_one,
    row_of,
    simple,
    snapshot_of,
    start_one_task,
    workflow_of,
)


async def hand_back(
    under_test: ConductorUnderTest, taken: AttemptRecord, *, after_seconds: int = 0
) -> None:
    """Hand a row back with something to remember."""
    given = HandBack(
        taken.snapshot, "worker", "worker draining", {"came back": 1}, after_seconds=after_seconds
    )
    await under_test.queue.hand_back(given, timeout_seconds=TIMEOUT_SECONDS)


async def test_Q20_redelivery_reuses_the_row(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    await conductor_under_test.workflows.release_without_result(taken)
    row = (await row_of(conductor_under_test, taken)).snapshot
    assert row.status is AttemptStatus.SCHEDULED
    again = (await poll_one(conductor_under_test, task_type, workflow_id, "another")).snapshot
    assert (again.task_id, again.retry_count) == (taken.snapshot.task_id, 0)
    assert (again.poll_count, again.worker_id) == (2, "another")
    assert again.scheduled_time == taken.snapshot.scheduled_time
    assert again.start_time == taken.snapshot.start_time


async def test_Q29_hand_back_spends_no_retry(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test, retryCount=0)
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    await hand_back(conductor_under_test, taken)
    row = (await row_of(conductor_under_test, taken)).snapshot
    assert (row.status, row.poll_count) == (AttemptStatus.SCHEDULED, 1)
    again = await poll_one(conductor_under_test, task_type, workflow_id, "another")
    first, second = taken.snapshot, again.snapshot
    assert (second.task_id, second.retry_count, second.seq) == (first.task_id, 0, first.seq)
    assert (second.scheduled_time, second.start_time) == (first.scheduled_time, first.start_time)
    assert (second.poll_count, second.worker_id, second.retried) == (2, "another", False)
    assert (again.output_data, again.reason) == ({"came back": 1}, "worker draining")
    assert await row_of(conductor_under_test, taken) == again
    assert len((await snapshot_of(conductor_under_test, workflow_id)).tasks) == 1


async def test_Q30_hand_back_waits(conductor_under_test: ConductorUnderTest) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    await hand_back(conductor_under_test, taken, after_seconds=2)
    assert await poll_now(conductor_under_test, task_type) == ()
    await conductor_under_test.let_pass(0.5)
    assert await poll_now(conductor_under_test, task_type) == ()
    await conductor_under_test.let_pass(2)
    again = await poll_one(conductor_under_test, task_type, workflow_id)
    assert again.snapshot.poll_count == 2


async def test_Q31_end_replaces_what_was_handed_back(
    conductor_under_test: ConductorUnderTest,
) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test, retryCount=1)
    await hand_back(
        conductor_under_test, await poll_one(conductor_under_test, task_type, workflow_id)
    )
    again = await poll_one(conductor_under_test, task_type, workflow_id)
    await fail(conductor_under_test, again, "broken")
    failed = await row_of(conductor_under_test, again)
    assert (failed.output_data, failed.reason) == ({}, "broken")
    retry = await poll_one(conductor_under_test, task_type, workflow_id)
    assert retry.snapshot.retry_count == 1
    assert retry.output_data == {}
    await hand_back(conductor_under_test, retry)
    last = await poll_one(conductor_under_test, task_type, workflow_id)
    await finish(conductor_under_test, last, output={"rows": 3})
    row = await row_of(conductor_under_test, last)
    assert (row.output_data, row.reason) == ({"rows": 3}, None)
    workflow = await workflow_of(conductor_under_test, workflow_id)
    assert (workflow.status, workflow.output_data) == (WorkflowStatus.COMPLETED, {"rows": 3})


async def test_Q32_hand_back_of_an_ended_attempt_is_ignored(
    conductor_under_test: ConductorUnderTest,
) -> None:
    workflow_id, task_type = await start_one_task(conductor_under_test)
    taken = await poll_one(conductor_under_test, task_type, workflow_id)
    unknown = HandBack(replace(taken.snapshot, task_id="no-such-task"), "worker")
    with pytest.raises(MissingError):
        await conductor_under_test.queue.hand_back(unknown, timeout_seconds=TIMEOUT_SECONDS)
    assert await row_of(conductor_under_test, taken) == taken
    await finish(conductor_under_test, taken, output={"rows": 3})
    before = await row_of(conductor_under_test, taken)
    await hand_back(conductor_under_test, taken)
    assert await row_of(conductor_under_test, taken) == before
    assert await poll_now(conductor_under_test, task_type) == ()


async def test_Q36_ended_row_tells_when(conductor_under_test: ConductorUnderTest) -> None:
    leases = (1, 600, 600)
    flows = [
        await start_one_task(conductor_under_test, responseTimeoutSeconds=seconds)
        for seconds in leases
    ]
    lost, done, cancelled = [
        await poll_one(conductor_under_test, task_type, workflow_id)
        for workflow_id, task_type in flows
    ]
    assert (await row_of(conductor_under_test, done)).ended_at == 0
    await conductor_under_test.let_pass(1.2)
    await conductor_under_test.nudge(flows[0][0])
    await finish(conductor_under_test, done)
    await conductor_under_test.workflows.terminate(flows[2][0], "by hand")
    for taken in (lost, done, cancelled):
        ended = await row_of(conductor_under_test, taken)
        assert ended.snapshot.status.is_terminal
        assert ended.ended_at >= ended.snapshot.start_time > 0
        await finish(conductor_under_test, taken, output={"late": True})
        assert (await row_of(conductor_under_test, taken)).ended_at == ended.ended_at


async def test_Q33_rows_in_progress_are_found(conductor_under_test: ConductorUnderTest) -> None:
    task_type = await define_task(conductor_under_test)
    name = await define_workflow(conductor_under_test, simple(task_type, "only"))
    ids = [await conductor_under_test.workflows.start(name, {}) for _ in range(3)]
    other_workflow, other_type = await start_one_task(conductor_under_test)
    await poll_one(conductor_under_test, other_type, other_workflow)
    assert await conductor_under_test.queue.in_progress(task_type) == ()
    held, ended, back = [
        await poll_one(conductor_under_test, task_type, each, f"worker-{number}")
        for number, each in enumerate(ids)
    ]
    await finish(conductor_under_test, ended)
    await hand_back(conductor_under_test, back)
    expected, found = await row_of(conductor_under_test, held), list[AttemptRecord]()
    assert expected.snapshot.worker_id == "worker-0"
    for _ in range(LOOKS_MAX):  # a server's index may be a moment late
        found = list(await conductor_under_test.queue.in_progress(task_type))
        if found == [expected]:
            break
        await conductor_under_test.let_pass(PAUSE_SECONDS)
    assert found == [expected]
    assert await conductor_under_test.queue.in_progress("no-such-type") == ()
