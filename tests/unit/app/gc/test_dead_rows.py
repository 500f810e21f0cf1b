"""The next worker of a root hands back the rows that its dead predecessor held, and no others."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.dead_owners import let_locks_go
from tests.redelivery import release
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.attempt.test_kept_outcomes import Host

from perago.adapters.filesystem.locks import RootLock
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.gc.judging import UNANSWERED_IN_A_ROW_MAX
from perago.app.gc.local_pass import LostRows
from perago.app.telemetry.metrics import Metrics
from perago.app.worker_assembly import StartWait, patience_of_start
from perago.domain.attempt import AttemptStatus
from perago.domain.hand_back import HAND_BACKS_MAX
from perago.domain.policy import PolicySetting
from perago.ports.conductor import WorkflowRecord
from perago.testing.faults import (
    Fault,
    Side,
    always,
    crash,
    lose_answer,
    meanwhile,
    unavailable,
)

IN_PROGRESS, SCHEDULED = AttemptStatus.IN_PROGRESS, AttemptStatus.SCHEDULED
FAILED = AttemptStatus.FAILED


async def one_died(
    tmp_path: Path,
    *,
    policy: PolicySetting = PolicySetting.SETTLED,
    before: str = "objects.upload",
) -> Host:
    """A worker holds one row and is gone; its lease is not over."""
    host = Host(tmp_path, policy)
    await host.harness.start()
    assert await host.harness.attempt(host.worker(crash(before=before))) is None
    let_locks_go(host.root)
    return host


async def next_worker(
    host: Host, *faults: Fault, tasks: Mapping[str, TaskDefinition] | None = None
) -> WorkflowRecord:
    """The next worker of this root starts; the workflow as it is then."""
    worker = host.worker(*faults)
    given = {TASK: host.harness.task} if tasks is None else tasks
    await LostRows(worker.harness, given, worker.settings, RootLock(host.root)).of_directories()
    return await host.harness.read()


async def test_the_row_of_a_dead_worker_goes_on_at_once_and_spends_no_retry(
    tmp_path: Path,
) -> None:
    host = await one_died(tmp_path)
    (row,) = (await next_worker(host)).attempts
    assert row.snapshot.status is SCHEDULED
    assert str(row.reason) == "handed back (1 of 5): worker worker-1 died"
    lines = await host.harness.operator.queue.read_log(row.snapshot.task_id)
    assert lines == (str(row.reason),)

    await host.next_attempt()

    (row,) = (await host.harness.read()).attempts
    assert (row.snapshot.retry_count, row.snapshot.poll_count) == (0, 2)
    assert host.harness.runs == 1, "the outcome was kept"


async def test_the_row_of_a_living_worker_is_never_handed_back(tmp_path: Path) -> None:
    host = Host(tmp_path)
    await host.harness.start()
    assert await host.harness.attempt(host.worker(crash(before="objects.upload"))) is None
    (row,) = (await next_worker(host)).attempts  # nobody has let its locks go
    assert (row.snapshot.status, row.snapshot.poll_count) == (IN_PROGRESS, 1)


async def test_a_row_that_another_worker_has_now_is_left_alone(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    (row,) = (await host.harness.read()).attempts
    await release(host.harness.operator.queue, row)
    assert await host.harness.worker().poll(TASK) is not None
    (row,) = (await next_worker(host)).attempts
    assert (row.snapshot.status, row.snapshot.poll_count) == (IN_PROGRESS, 2)


async def test_a_row_that_another_worker_gets_while_it_is_looked_at_is_left_alone(
    tmp_path: Path,
) -> None:
    """Between the look at the workflow and the one at the row."""
    host = await one_died(tmp_path)

    async def redeliver() -> None:
        (row,) = (await host.harness.read()).attempts
        await release(host.harness.operator.queue, row)
        assert await host.harness.worker().poll(TASK) is not None

    (row,) = (await next_worker(host, meanwhile(redeliver, before="queue.read_attempt"))).attempts
    assert (row.snapshot.status, row.snapshot.poll_count) == (IN_PROGRESS, 2)


async def test_a_row_that_timed_out_is_left_alone(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    await host.lose_the_lease()
    assert await host.harness.worker().poll(TASK) is not None
    timed_out, retry = (await next_worker(host)).attempts
    assert timed_out.snapshot.status is AttemptStatus.TIMED_OUT
    assert retry.snapshot.status is IN_PROGRESS


async def test_the_row_of_an_ended_workflow_is_left_alone(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    await host.harness.operator.workflows.terminate(host.harness.workflow, "enough")
    (row,) = (await next_worker(host)).attempts
    assert row.snapshot.status is AttemptStatus.CANCELED


async def test_a_row_whose_workers_die_again_and_again_fails_with_all_reasons(
    tmp_path: Path,
) -> None:
    host = await one_died(tmp_path)
    for _ in range(HAND_BACKS_MAX):
        (row,) = (await next_worker(host)).attempts
        assert row.snapshot.status is SCHEDULED
        assert await host.harness.attempt(host.worker(crash(before="objects.upload"))) is None
        let_locks_go(host.root)
    row, retry = (await next_worker(host)).attempts
    assert (row.snapshot.status, retry.snapshot.status) == (FAILED, SCHEDULED)
    assert "handed back 5 times in a row without an end: " in str(row.reason)
    assert "worker-1 died" in str(row.reason)
    assert "PRG-U002" in str(row.reason)
    lines = await host.harness.operator.queue.read_log(row.snapshot.task_id)
    assert lines[-1] == str(row.reason)


async def test_a_row_of_a_task_that_this_worker_does_not_know_is_left_alone(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    (row,) = (await next_worker(host, tasks={})).attempts
    assert row.snapshot.status is IN_PROGRESS


async def test_a_row_with_an_execution_time_out_is_left_alone(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    controls = host.harness.task.controls
    timeout = controls.timeout.model_copy(update={"seconds": 3600})
    limited = replace(host.harness.task, controls=controls.model_copy(update={"timeout": timeout}))
    (row,) = (await next_worker(host, tasks={TASK: limited})).attempts
    assert row.snapshot.status is IN_PROGRESS


@pytest.mark.parametrize(
    ("before", "status"),
    [("objects.download", SCHEDULED), ("objects.upload", IN_PROGRESS)],
    ids=["nothing was sent that could publish", "a merge may be on its way"],
)
@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_under_the_documents_policies_a_late_merge_is_waited_for(
    tmp_path: Path, policy: PolicySetting, before: str, status: AttemptStatus
) -> None:
    host = await one_died(tmp_path, policy=policy, before=before)
    (row,) = (await next_worker(host)).attempts
    assert row.snapshot.status is status


@pytest.mark.parametrize(
    "fault",
    [unavailable("queue.read_workflow"), unavailable("queue.hand_back")],
    ids=["no read", "no hand back"],
)
async def test_a_conductor_that_does_not_answer_is_no_reason_not_to_start(
    tmp_path: Path, fault: Fault
) -> None:
    host = await one_died(tmp_path)
    (row,) = (await next_worker(host, fault)).attempts
    assert row.snapshot.status is IN_PROGRESS
    assert host.directory.exists()


@pytest.mark.parametrize(
    "fault",
    [unavailable("queue.read_workflow"), lose_answer("queue.hand_back")],
    ids=["no read", "the answer is lost"],
)
async def test_a_row_that_cannot_be_handed_back_holds_up_no_other(
    tmp_path: Path, fault: Fault
) -> None:
    host = await one_died(tmp_path)
    first = host.harness.workflow
    await host.harness.start()
    assert await host.harness.attempt(host.worker(crash(before="objects.upload"))) is None
    let_locks_go(host.root)
    await next_worker(host, fault)
    flows = [
        await host.harness.operator.workflows.read(each) for each in (first, host.harness.workflow)
    ]
    states = [flow.attempts[0].snapshot.status for flow in flows if flow is not None]
    handed_back = 2 if fault.moment.side is Side.AFTER else 1
    assert states.count(SCHEDULED) == handed_back, states


async def test_a_conductor_that_answers_nothing_is_asked_for_three_rows(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    for _ in range(4):
        await host.harness.start()
        assert await host.harness.attempt(host.worker(crash(before="objects.upload"))) is None
    let_locks_go(host.root)
    await next_worker(host, always(unavailable("queue.read_workflow")))
    assert host.harness.workers[-1].calls["queue.read_workflow"] == UNANSWERED_IN_A_ROW_MAX


async def test_a_hand_back_whose_answer_is_lost_is_not_repeated(tmp_path: Path) -> None:
    host = await one_died(tmp_path)
    (row,) = (await next_worker(host, lose_answer("queue.hand_back"))).attempts
    assert row.snapshot.status is SCHEDULED
    assert host.harness.workers[-1].calls["queue.hand_back"] == 1


@pytest.mark.parametrize("call", ["queue.read_workflow", "queue.read_attempt", "queue.hand_back"])
async def test_a_start_with_patience_waits_for_conductor_and_then_hands_back(
    tmp_path: Path, call: str
) -> None:
    host = await one_died(tmp_path)
    worker = host.worker(*[unavailable(call, nth=nth) for nth in range(1, 6)])
    patience = patience_of_start(worker.harness, 60, StartWait(Metrics()))
    names, tasks = RootLock(host.root), {TASK: host.harness.task}
    dead = LostRows(worker.harness, tasks, worker.settings, names, patience)
    await host.harness.drive(dead.of_directories())
    (row,) = (await host.harness.read()).attempts
    assert (row.snapshot.status, row.snapshot.poll_count) == (SCHEDULED, 1)


async def test_with_patience_a_hand_back_whose_answer_is_lost_is_found_and_not_repeated(
    tmp_path: Path,
) -> None:
    """Its second sending could meet the worker that polled the row meanwhile."""
    host = await one_died(tmp_path)
    worker = host.worker(lose_answer("queue.hand_back"))
    patience = patience_of_start(worker.harness, 60, StartWait(Metrics()))
    names, tasks = RootLock(host.root), {TASK: host.harness.task}
    dead = LostRows(worker.harness, tasks, worker.settings, names, patience)
    await host.harness.drive(dead.of_directories())
    (row,) = (await host.harness.read()).attempts
    assert row.snapshot.status is SCHEDULED
    assert host.harness.workers[-1].calls["queue.hand_back"] == 1
