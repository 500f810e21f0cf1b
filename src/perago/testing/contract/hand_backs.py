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
    ConductorScene,
    simple,
)
from perago.testing.contract.conductor_under_test import scene as scene


async def test_Q20_redelivery_reuses_the_row(scene: ConductorScene) -> None:
    workflow_id, task_type, taken = await scene.take_one_task()
    given = HandBack(taken.snapshot, "worker")
    await scene.queue.hand_back(given, timeout_seconds=TIMEOUT_SECONDS)
    row = (await scene.row_of(taken)).snapshot
    assert row.status is AttemptStatus.SCHEDULED
    again = (await scene.poll_one(task_type, workflow_id, "another")).snapshot
    assert (again.task_id, again.retry_count) == (taken.snapshot.task_id, 0)
    assert (again.poll_count, again.worker_id) == (2, "another")
    assert again.scheduled_time == taken.snapshot.scheduled_time
    assert again.start_time == taken.snapshot.start_time


async def test_Q29_hand_back_spends_no_retry(scene: ConductorScene) -> None:
    workflow_id, task_type, taken = await scene.take_one_task(retryCount=0)
    await scene.hand_back(taken)
    row = (await scene.row_of(taken)).snapshot
    assert (row.status, row.poll_count) == (AttemptStatus.SCHEDULED, 1)
    again = await scene.poll_one(task_type, workflow_id, "another")
    first, second = taken.snapshot, again.snapshot
    assert (second.task_id, second.retry_count, second.seq) == (first.task_id, 0, first.seq)
    assert (second.scheduled_time, second.start_time) == (first.scheduled_time, first.start_time)
    assert (second.poll_count, second.worker_id, second.retried) == (2, "another", False)
    assert (again.output_data, again.reason) == ({"came back": 1}, "worker draining")
    assert await scene.row_of(taken) == again
    assert len((await scene.snapshot_of(workflow_id)).tasks) == 1


async def test_Q30_hand_back_waits(scene: ConductorScene) -> None:
    workflow_id, task_type, taken = await scene.take_one_task()
    await scene.hand_back(taken, after_seconds=2)
    assert await scene.poll_now(task_type) == ()
    await scene.let_pass(0.5)
    assert await scene.poll_now(task_type) == ()
    await scene.let_pass(2)
    again = await scene.poll_one(task_type, workflow_id)
    assert again.snapshot.poll_count == 2


async def test_Q31_end_replaces_what_was_handed_back(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task(retryCount=1)
    await scene.hand_back(await scene.poll_one(task_type, workflow_id))
    again = await scene.poll_one(task_type, workflow_id)
    await scene.fail(again, "broken")
    failed = await scene.row_of(again)
    assert (failed.output_data, failed.reason) == ({}, "broken")
    retry = await scene.poll_one(task_type, workflow_id)
    assert retry.snapshot.retry_count == 1
    assert retry.output_data == {}
    await scene.hand_back(retry)
    last = await scene.poll_one(task_type, workflow_id)
    await scene.finish(last, output={"rows": 3})
    row = await scene.row_of(last)
    assert (row.output_data, row.reason) == ({"rows": 3}, None)
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, workflow.output_data) == (WorkflowStatus.COMPLETED, {"rows": 3})


async def test_Q32_hand_back_of_an_ended_attempt_is_ignored(scene: ConductorScene) -> None:
    _, task_type, taken = await scene.take_one_task()
    unknown = HandBack(replace(taken.snapshot, task_id="no-such-task"), "worker")
    with pytest.raises(MissingError):
        await scene.queue.hand_back(unknown, timeout_seconds=TIMEOUT_SECONDS)
    assert await scene.row_of(taken) == taken
    await scene.finish(taken, output={"rows": 3})
    before = await scene.row_of(taken)
    await scene.hand_back(taken)
    assert await scene.row_of(taken) == before
    assert await scene.poll_now(task_type) == ()


async def test_Q36_ended_row_tells_when(scene: ConductorScene) -> None:
    leases = (1, 600, 600)
    flows = [await scene.start_one_task(responseTimeoutSeconds=seconds) for seconds in leases]
    lost, done, cancelled = [
        await scene.poll_one(task_type, workflow_id) for workflow_id, task_type in flows
    ]
    assert (await scene.row_of(done)).ended_at == 0
    # Longer than the lease of `lost`, and before the nudge, because only a decision of the workflow
    # ends a row whose lease has run out.
    await scene.let_pass(1.2)
    await scene.nudge(flows[0][0])
    await scene.finish(done)
    await scene.workflows.terminate(flows[2][0], "by hand")
    for taken in (lost, done, cancelled):
        ended = await scene.row_of(taken)
        assert ended.snapshot.status.is_terminal
        assert ended.ended_at >= ended.snapshot.start_time > 0
        await scene.finish(taken, output={"late": True})
        assert (await scene.row_of(taken)).ended_at == ended.ended_at


async def test_Q33_rows_in_progress_are_found(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "only"))
    ids = [await scene.workflows.start(name, {}) for _ in range(3)]
    other_workflow, other_type = await scene.start_one_task()
    await scene.poll_one(other_type, other_workflow)
    assert await scene.queue.in_progress(task_type) == ()
    held, ended, back = [
        await scene.poll_one(task_type, each, f"worker-{number}") for number, each in enumerate(ids)
    ]
    await scene.finish(ended)
    await scene.hand_back(back)
    expected, found = await scene.row_of(held), list[AttemptRecord]()
    assert expected.snapshot.worker_id == "worker-0"
    for _ in range(LOOKS_MAX):  # a server's index may be a moment late
        found = list(await scene.queue.in_progress(task_type))
        if found == [expected]:
            break
        await scene.let_pass(PAUSE_SECONDS)
    assert found == [expected]
    assert await scene.queue.in_progress("no-such-type") == ()
