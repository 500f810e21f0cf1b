"""Laws of `TaskQueue`: polling, reading, updating, heartbeats, logs, repeated messages.

Also what an operator asks of a queue: who polls it, and how many rows wait.
"""

import pytest

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, WorkflowStatus
from perago.ports.conductor import HandBack, PollRequest, TaskQueue, TerminalUpdate
from perago.ports.errors import MissingError, OutcomeUnknownError, RequestRefusedError
from perago.testing.contract.conductor_under_test import (
    LOOKS_MAX,
    PAUSE_SECONDS,
    TIMEOUT_SECONDS,
    ConductorScene,
    simple,
)
from perago.testing.contract.conductor_under_test import scene as scene

# A row that no server has: an unknown id is a 404.
UNKNOWN_ROW = AttemptSnapshot("", "no-such-task", "only", "none", AttemptStatus.IN_PROGRESS)


async def test_Q1_poll_hands_out_once(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    (taken,) = await scene.poll_now(task_type, "worker-7")
    assert await scene.poll_now(task_type, "worker-8") == ()
    row = (await scene.row_of(taken)).snapshot
    assert row == taken.snapshot
    assert (row.workflow_id, row.status) == (workflow_id, AttemptStatus.IN_PROGRESS)
    assert (row.worker_id, row.poll_count) == ("worker-7", 1)
    assert row.start_time >= row.scheduled_time > 0


async def test_Q2_poll_of_nothing_is_empty(scene: ConductorScene) -> None:
    known = await scene.define_task()
    assert await scene.poll_now(known) == ()
    assert await scene.poll_now(scene.unique("unknown")) == ()


async def test_Q3_poll_respects_the_domain(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "only"))
    domain = scene.unique("domain")
    await scene.workflows.start(name, {}, task_to_domain={task_type: domain})
    assert await scene.poll_now(task_type) == ()
    (taken,) = await scene.poll_now(task_type, domain=domain)
    assert taken.domain == domain
    await scene.workflows.start(name, {})
    assert await scene.poll_now(task_type, domain=domain) == ()
    (taken,) = await scene.poll_now(task_type)
    assert taken.domain is None


async def test_Q4_poll_gives_up_to_count(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "only"))
    started = {await scene.workflows.start(name, {}) for _ in range(3)}
    two = await scene.queue.poll(PollRequest(task_type, "worker", count=2))
    rest = await scene.queue.poll(PollRequest(task_type, "worker", count=5))
    assert (len(two), len(rest)) == (2, 1)
    assert {taken.snapshot.workflow_id for taken in (*two, *rest)} == started
    with pytest.raises(RequestRefusedError):
        await scene.queue.poll(PollRequest(task_type, "worker", wait_ms=5001))


async def test_Q5_read_attempt_is_fresh(scene: ConductorScene) -> None:
    workflow_id, _, taken = await scene.take_one_task()
    assert (await scene.row_of(taken)).snapshot.status is AttemptStatus.IN_PROGRESS
    await scene.finish(taken, output={"rows": 3})
    row = await scene.row_of(taken)
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.COMPLETED, {"rows": 3})
    assert await scene.queue.read_attempt(workflow_id, "no-such-task") is None


async def test_Q6_read_workflow_has_every_row(scene: ConductorScene) -> None:
    workflow_id, task_type, first = await scene.take_one_task()
    await scene.fail(first)
    second = await scene.poll_one(task_type, workflow_id)
    workflow = await scene.snapshot_of(workflow_id)
    assert workflow.status is WorkflowStatus.RUNNING
    assert [row.task_id for row in workflow.tasks] == [
        first.snapshot.task_id,
        second.snapshot.task_id,
    ]
    assert workflow.tasks[1] == second.snapshot
    assert await scene.queue.read_workflow("no-such-workflow") is None


async def test_Q7_complete_is_recorded(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(
        simple(task_type, "first"), simple(task_type, "second", {"table": "${first.output.table}"})
    )
    taken = await scene.poll_one(task_type, workflow_id)
    output = {"table": {"rows": 3, "names": ["a", "b"], "empty": None}}
    await scene.finish(taken, output=output)
    row = await scene.row_of(taken)
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.COMPLETED, output)
    behind = await scene.poll_one(task_type, workflow_id)
    assert behind.snapshot.reference_name == "second"
    assert behind.input_data == output


@pytest.mark.parametrize("status", [AttemptStatus.FAILED, AttemptStatus.COMPLETED])
async def test_Q10_stale_update_is_accepted_and_ignored(
    scene: ConductorScene, status: AttemptStatus
) -> None:
    workflow_id, task_type, first = await scene.take_one_task()
    await scene.fail(first, "superseded")
    second = await scene.poll_one(task_type, workflow_id)
    before = await scene.row_of(first)
    await scene.finish(first, status, {"late": True}, "late")
    assert await scene.row_of(first) == before
    await scene.finish(second, output={"in": "time"})
    await scene.finish(second, status, {"late": True}, "late")
    row = await scene.row_of(second)
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.COMPLETED, {"in": "time"})
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.COMPLETED
    assert len(workflow.attempts) == 2


async def test_Q11_update_of_unknown_task(scene: ConductorScene) -> None:
    workflow_id, task_type, taken = await scene.take_one_task()
    for known in (workflow_id, "no-such-workflow"):
        attempt = AttemptSnapshot(known, UNKNOWN_ROW.task_id, "only", task_type, UNKNOWN_ROW.status)
        update = TerminalUpdate(attempt, "worker", AttemptStatus.COMPLETED)
        with pytest.raises(MissingError):
            await scene.queue.complete(update, timeout_seconds=10)
    assert await scene.row_of(taken) == taken


async def test_Q12_extend_lease_moves_nothing_else(scene: ConductorScene) -> None:
    _, _, taken = await scene.take_one_task()
    for sender in ("worker", "a stranger"):
        await scene.queue.extend_lease(taken.snapshot, sender)
    assert await scene.row_of(taken) == taken


async def test_Q13_extend_lease_of_a_finished_task_is_ignored(scene: ConductorScene) -> None:
    _, _, taken = await scene.take_one_task()
    await scene.finish(taken, output={"rows": 3})
    before = await scene.row_of(taken)
    await scene.queue.extend_lease(taken.snapshot, "worker")
    assert await scene.row_of(taken) == before


async def test_Q14_lost_lease_is_retried(scene: ConductorScene) -> None:
    workflow_id, task_type, first = await scene.take_one_task(
        responseTimeoutSeconds=1, timeoutPolicy="ALERT_ONLY"
    )
    await scene.let_pass(1.2)
    await scene.nudge(workflow_id)
    row = await scene.row_of(first)
    assert (row.snapshot.status, row.snapshot.retried) == (AttemptStatus.TIMED_OUT, True)
    assert (row.reason or "").startswith(
        f"responseTimeout: 1 exceeded for the taskId: {first.snapshot.task_id}"
    )
    second = await scene.poll_one(task_type, workflow_id)
    assert second.snapshot.retried_task_id == first.snapshot.task_id


async def test_Q15_kept_lease_lives(scene: ConductorScene) -> None:
    workflow_id, _, taken = await scene.take_one_task(responseTimeoutSeconds=2)
    for _ in range(4):
        await scene.let_pass(0.7)
        await scene.queue.extend_lease(taken.snapshot, "worker")
    await scene.nudge(workflow_id)
    assert await scene.row_of(taken) == taken


async def test_Q16_terminated_workflow_cancels(scene: ConductorScene) -> None:
    workflow_id, _, taken = await scene.take_one_task()
    await scene.workflows.terminate(workflow_id, "by hand")
    before = await scene.row_of(taken)
    assert before.snapshot.status is AttemptStatus.CANCELED
    await scene.finish(taken, output={"late": True})
    assert await scene.row_of(taken) == before
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, workflow.reason) == (WorkflowStatus.TERMINATED, "by hand")


async def test_Q23_task_log_is_kept(scene: ConductorScene) -> None:
    _, _, taken = await scene.take_one_task()
    task_id = taken.snapshot.task_id
    assert await scene.queue.read_log(task_id) == ()
    for line in ("published c1", 'with "quotes" and ünïcode'):
        await scene.queue.log(task_id, line)
    assert set(await scene.queue.read_log(task_id)) == {"published c1", 'with "quotes" and ünïcode'}


async def test_Q24_retry_delay_is_kept(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task(retryDelaySeconds=2)
    await scene.fail(await scene.poll_one(task_type, workflow_id))
    assert await scene.poll_now(task_type) == ()
    first, retry = (await scene.workflow_of(workflow_id)).attempts
    assert (first.delay_seconds, retry.delay_seconds) == (0, 2)
    await scene.let_pass(0.5)
    assert await scene.poll_now(task_type) == ()
    await scene.let_pass(2)
    taken = await scene.poll_one(task_type, workflow_id)
    assert (taken.snapshot.retry_count, taken.delay_seconds) == (1, 0)


async def test_Q8_failed_is_retried(scene: ConductorScene) -> None:
    workflow_id, task_type, first = await scene.take_one_task()
    await scene.fail(first, "disk full")
    before = await scene.row_of(first)
    assert (before.snapshot.status, before.snapshot.retried) == (AttemptStatus.FAILED, True)
    assert before.reason == "disk full"
    second = (await scene.poll_one(task_type, workflow_id)).snapshot
    assert second.task_id != first.snapshot.task_id
    assert second.retried_task_id == first.snapshot.task_id
    assert (second.retry_count, second.poll_count) == (1, 1)
    assert second.seq == first.snapshot.seq + 1
    assert not second.retried


async def test_Q9_terminal_error_is_not_retried(scene: ConductorScene) -> None:
    workflow_id, _, taken = await scene.take_one_task()
    status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    await scene.finish(taken, status, reason="bad input")
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    assert workflow.reason == (
        f"Task {taken.snapshot.task_id} failed with status: FAILED and reason: 'bad input'"
    )
    (row,) = workflow.attempts
    assert (row.snapshot.status, row.snapshot.retried, row.reason) == (status, False, "bad input")


async def test_Q17_retries_end(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task(retryCount=1)
    await scene.fail(await scene.poll_one(task_type, workflow_id), "one")
    last = await scene.poll_one(task_type, workflow_id)
    await scene.fail(last, "two")
    workflow = await scene.workflow_of(workflow_id)
    assert workflow.status is WorkflowStatus.FAILED
    assert [row.reason for row in workflow.attempts] == ["one", "two"]
    assert await scene.poll_now(task_type) == ()


async def test_Q18_rerun_reuses_the_row(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    await scene.fail(await scene.poll_one(task_type, workflow_id))
    second = (await scene.poll_one(task_type, workflow_id)).snapshot
    # Conductor reruns only a workflow that has ended.
    await scene.workflows.terminate(workflow_id, "by hand")
    await scene.workflows.rerun(workflow_id, second.task_id)
    (waiting,) = [
        row for row in (await scene.snapshot_of(workflow_id)).tasks if row.task_id == second.task_id
    ]
    assert (waiting.status, waiting.poll_count) == (AttemptStatus.SCHEDULED, 0)
    again = (await scene.poll_one(task_type, workflow_id, "another")).snapshot
    assert (again.task_id, again.seq) == (second.task_id, second.seq)
    assert (again.retry_count, again.retried_task_id) == (1, second.retried_task_id)
    assert (again.poll_count, again.worker_id) == (1, "another")
    assert again.scheduled_time > second.scheduled_time


async def test_Q19_restart_forgets_the_rows(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    first = (await scene.poll_one(task_type, workflow_id)).snapshot
    # Conductor restarts only a workflow that has ended.
    await scene.workflows.terminate(workflow_id, "by hand")
    await scene.workflows.restart(workflow_id)
    assert await scene.queue.read_attempt(workflow_id, first.task_id) is None
    assert (await scene.snapshot_of(workflow_id)).ended_at == 0
    again = (await scene.poll_one(task_type, workflow_id)).snapshot
    assert again.task_id != first.task_id
    assert (again.retry_count, again.retried_task_id, again.seq) == (0, None, 1)


async def test_Q21_manual_retry_is_a_new_attempt(scene: ConductorScene) -> None:
    workflow_id, task_type, first = await scene.take_one_task(retryCount=0)
    await scene.fail(first)
    assert (await scene.snapshot_of(workflow_id)).status is WorkflowStatus.FAILED
    await scene.workflows.retry(workflow_id)
    second = (await scene.poll_one(task_type, workflow_id)).snapshot
    assert second.retried_task_id == first.snapshot.task_id
    assert second.retry_count == 1
    assert (await scene.row_of(first)).snapshot.retried


async def test_Q22_paused_workflow_completes(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(simple(task_type, "first"), simple(task_type, "second"))
    taken = await scene.poll_one(task_type, workflow_id)
    await scene.workflows.pause(workflow_id)
    await scene.finish(taken, output={"rows": 3})
    assert (await scene.row_of(taken)).output_data == {"rows": 3}
    assert len((await scene.snapshot_of(workflow_id)).tasks) == 1
    await scene.workflows.resume(workflow_id)
    behind = await scene.poll_one(task_type, workflow_id)
    assert behind.snapshot.reference_name == "second"


async def test_Q25_retry_resolves_inputs_anew(scene: ConductorScene) -> None:
    task_type = await scene.define_task()
    workflow_id = await scene.start(
        simple(task_type, "only", {"table": "${workflow.input.table}"}),
        workflow_input={"table": "a"},
    )
    taken = await scene.poll_one(task_type, workflow_id)
    await scene.workflows.terminate(workflow_id, "by hand")
    given = {"table": "b", "more": 1}
    await scene.workflows.rerun(workflow_id, taken.snapshot.task_id, given)
    again = await scene.poll_one(task_type, workflow_id)
    assert again.input_data == given
    await scene.fail(again)
    retried = await scene.poll_one(task_type, workflow_id)
    assert retried.input_data == {"table": "a", "more": 1}


async def test_Q26_ended_workflow_tells_when(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task(retryCount=0)
    first = (await scene.poll_one(task_type, workflow_id)).snapshot
    # Conductor's times are milliseconds, and two of them must differ.
    await scene.let_pass(0.05)
    await scene.workflows.terminate(workflow_id, "by hand")
    ended = await scene.snapshot_of(workflow_id)
    assert ended.status.is_terminal
    assert ended.ended_at > first.scheduled_time
    await scene.let_pass(0.05)
    assert (await scene.snapshot_of(workflow_id)).ended_at == ended.ended_at
    await scene.workflows.retry(workflow_id)
    await scene.let_pass(0.05)
    await scene.workflows.terminate(workflow_id, "again")
    assert (await scene.snapshot_of(workflow_id)).ended_at > ended.ended_at


async def test_Q27_lost_answer_is_unknown(scene: ConductorScene) -> None:
    workflow_id, task_type = await scene.start_one_task()
    async with scene.losing_answers() as losing:
        row = await poll_unheard(scene, losing.queue, workflow_id, task_type)
        with pytest.raises(OutcomeUnknownError):
            await losing.queue.extend_lease(row, "worker")
        with pytest.raises(OutcomeUnknownError):
            await losing.queue.log(row.task_id, "one line")
        given = HandBack(row, "worker", "worker draining")
        with pytest.raises(OutcomeUnknownError):
            await losing.queue.hand_back(given, timeout_seconds=TIMEOUT_SECONDS)
        update = TerminalUpdate(row, "worker", AttemptStatus.COMPLETED, {"rows": 3})
        with pytest.raises(OutcomeUnknownError):
            await losing.queue.complete(update, timeout_seconds=TIMEOUT_SECONDS)
    assert await scene.queue.read_log(row.task_id) == ("one line",)
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, workflow.output_data) == (WorkflowStatus.COMPLETED, {"rows": 3})


async def poll_unheard(
    scene: ConductorScene, losing: TaskQueue, workflow_id: str, task_type: str
) -> AttemptSnapshot:
    """Poll without ever getting an answer, until the row was handed out all the same."""
    for _ in range(LOOKS_MAX):
        with pytest.raises(OutcomeUnknownError):
            await losing.poll(PollRequest(task_type, "worker"))
        (row,) = (await scene.snapshot_of(workflow_id)).tasks
        if row.status is AttemptStatus.IN_PROGRESS:
            return row
        await scene.let_pass(PAUSE_SECONDS)
    raise AssertionError(f"{task_type} was never handed out")


@pytest.mark.parametrize("end", [AttemptStatus.COMPLETED, AttemptStatus.FAILED])
async def test_Q28_rerun_hands_failed_attempts_out(
    scene: ConductorScene, end: AttemptStatus
) -> None:
    first, second = [await scene.define_task(retryCount=1) for _ in range(2)]
    behind = simple(second, "second", {"x": "${first.output.x}"})
    workflow_id = await scene.start(simple(first, "first"), behind)
    failed = await scene.poll_one(first, workflow_id)
    await scene.fail(failed)
    good = await scene.poll_one(first, workflow_id)
    await scene.finish(good, output={"x": "good"})
    last = await scene.poll_one(second, workflow_id)
    await scene.workflows.terminate(workflow_id, "by hand")
    await scene.workflows.rerun(workflow_id, last.snapshot.task_id)
    back = await scene.poll_one(first, workflow_id)
    assert (back.snapshot.task_id, back.snapshot.poll_count) == (failed.snapshot.task_id, 2)
    assert (back.snapshot.retried, back.reason) == (True, None)
    again = await scene.poll_one(second, workflow_id)
    assert again.input_data == {"x": "good"}
    await scene.finish(again)
    assert (await scene.snapshot_of(workflow_id)).status is WorkflowStatus.RUNNING
    await scene.finish(back, end, output={"x": "late"})
    workflow = await scene.workflow_of(workflow_id)
    assert (workflow.status, len(workflow.attempts)) == (WorkflowStatus.COMPLETED, 3)


async def test_Q34_last_polls_are_known(scene: ConductorScene) -> None:
    queue = scene.queue
    _, task_type = await scene.start_one_task()
    domain = scene.unique("domain")
    assert await queue.last_polls(task_type) == ()
    await scene.poll_now(task_type, "worker-1")
    (first,) = await queue.last_polls(task_type)
    assert (first.worker_id, first.domain) == ("worker-1", None)
    # Conductor states the time of a poll in milliseconds, so the next one must not follow at once.
    await scene.let_pass(PAUSE_SECONDS)
    # The only row is taken: a poll that gets nothing counts, too.
    await scene.poll_now(task_type, "worker-2")
    await scene.poll_now(task_type, "worker-3", domain=domain)
    found = {poll.domain: poll for poll in await queue.last_polls(task_type)}
    assert {each: poll.worker_id for each, poll in found.items()} == {
        None: "worker-2",
        domain: "worker-3",
    }
    assert found[None].at > first.at
    assert await queue.last_polls(scene.unique("unknown")) == ()


async def test_Q35_waiting_rows_are_counted(scene: ConductorScene) -> None:
    queue = scene.queue
    task_type = await scene.define_task()
    name = await scene.define_workflow(simple(task_type, "only"))
    later = await scene.define_workflow(simple(task_type, "only", startDelay=3600))
    domain = scene.unique("domain")
    assert await queue.waiting(task_type) == {}
    for _ in range(2):
        await scene.workflows.start(name, {})
    kept_back = await scene.workflows.start(later, {})
    (row,) = (await scene.workflow_of(kept_back)).attempts
    assert row.delay_seconds == 3600
    await scene.workflows.start(name, {}, task_to_domain={task_type: domain})
    assert await queue.waiting(task_type) == {None: 3, domain: 1}
    (taken,) = await queue.poll(PollRequest(task_type, "worker"))
    assert await queue.waiting(task_type) == {None: 2, domain: 1}
    await scene.finish(taken)
    assert len(await scene.poll_now(task_type, domain=domain)) == 1
    assert await queue.waiting(task_type) == {None: 2}
