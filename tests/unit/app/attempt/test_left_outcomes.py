"""What an attempt leaves when something that passes ends it between its function and its decision.

Its process lives on or ends in order, unlike those of test_kept_outcomes.py.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.app.attempt.test_kept_outcomes import Host
from tests.unit.app.attempt.test_outages_meet_other_parts import DrainInTheWait

from perago.adapters.filesystem.locks import OwnerRecords
from perago.app.attempt.ending import HANDED_BACK
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.guardrails import forbid_glob
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.gc.local_pass import sweep_directories
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import GuardrailViolation, StaleAttemptError
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.ports.errors import LocalDiskError, UnavailableError, WorkspaceLostError
from perago.ports.workspace import Materialised, Phase, TransferCounts, WorkspaceSource
from perago.testing.faults import Fault, always, meanwhile, outage, refuse

UPLOADS_FAIL = always(refuse("objects.upload", UnavailableError("lakeFS: connection refused")))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def drain_in(host: Host, call: str, *faults: Fault) -> AttemptReport:
    """The first attempt is drained while it waits for lakeFS, which is away from this call on."""
    await host.harness.start()
    worker = host.worker(*faults, outage(before=call, seconds=1e6))
    order = DrainInTheWait(host.harness.workers[-1])
    drained = replace(worker, harness=replace(worker.harness, stop_order=order))
    return await host.harness.report_of(drained)


async def end_after_the_function(host: Host, *faults: Fault) -> AttemptReport:
    """The first attempt runs the function and ends with these faults."""
    await host.harness.start()
    report = await host.harness.report_of(host.worker(*faults))
    assert host.harness.runs == 1
    return report


def directories(host: Host) -> list[Path]:
    return list(host.root.glob("task_id=*"))


async def test_a_drain_after_the_function_leaves_its_outcome_to_the_next_worker(host: Host) -> None:
    report = await drain_in(host, "objects.upload")
    assert (report.status, host.harness.runs) == (HANDED_BACK, 1)

    await host.next_attempt()

    (row,) = (await host.harness.read()).attempts
    assert (host.harness.runs, host.downloads(), row.snapshot.poll_count) == (1, 0, 2)
    assert directories(host) == []
    assert list(host.root.glob(".perago-attempts/*")) == []


async def test_the_outcome_is_left_before_the_row_is(host: Host) -> None:
    """The next execution may begin as soon as Conductor has the row back."""
    owned: list[bool] = []

    async def look() -> None:
        (directory,) = directories(host)
        owned.append(OwnerRecords(host.root).is_alive(directory.name))

    report = await drain_in(host, "objects.upload", meanwhile(look, before="queue.hand_back"))
    assert (report.status, owned) == (HANDED_BACK, [False])


async def test_patience_that_is_over_leaves_the_outcome_to_the_retry(host: Host) -> None:
    report = await end_after_the_function(host, UPLOADS_FAIL)
    assert "could no longer be this attempt's" in str(report.error)
    await host.harness.lose_lease()
    await host.next_attempt()
    assert (host.harness.runs, host.downloads()) == (1, 0)


async def test_the_process_that_left_an_outcome_may_go_on_with_it_itself(host: Host) -> None:
    host.harness.patience_seconds = 5.0
    await host.harness.start()
    worker = host.worker(UPLOADS_FAIL)
    first = await host.harness.report_of(worker)
    assert first.status == AttemptStatus.FAILED
    host.harness.planned.clear()  # lakeFS is back
    downloads = host.downloads()
    second = await host.harness.report_of(worker)
    assert second.error is None
    assert (host.harness.runs, host.downloads()) == (1, downloads)


async def test_an_attempt_that_is_lost_after_the_function_leaves_its_outcome(host: Host) -> None:
    await host.harness.start()
    worker = host.worker(meanwhile(host.harness.lose_lease, before="pipeline.plan"))
    report = await host.harness.report_of(worker)
    assert isinstance(report.error, StaleAttemptError)
    (directory,) = directories(host)
    cleaned = [facts for phase, facts in worker.progress.events if phase is Phase.CLEANED]
    assert cleaned == [{"staging_kept": False, "outcome_left": str(directory)}]
    source = WorkspaceSource(host.harness.repository.id, host.harness.input, "data")
    with pytest.raises(WorkspaceLostError, match="nothing is known"):
        await worker.harness.lakefs.pipeline.plan(Materialised(source, directory, TransferCounts()))
    await host.next_attempt()
    assert (host.harness.runs, host.downloads()) == (1, 0)


async def test_what_was_left_and_changed_since_is_refused(host: Host) -> None:
    await drain_in(host, "objects.upload")
    (directory,) = directories(host)
    (directory / "out.txt").write_text("a left-over process")
    await host.next_attempt()
    assert host.harness.runs == 2


async def test_gc_keeps_what_a_drain_left_until_its_task_is_over(host: Host) -> None:
    await drain_in(host, "objects.upload")
    collector, times = host.worker().harness, RetentionTimes()
    kept = await sweep_directories(collector.directories, times, collector.queue)
    assert (kept.removed, kept.failed, len(directories(host))) == ([], [], 1)
    await host.harness.operator.workflows.terminate(host.harness.workflow, "enough")
    await sweep_directories(collector.directories, times, collector.queue)
    assert directories(host) == []


async def test_a_failure_of_the_task_itself_leaves_nothing(host: Host) -> None:
    guarded = WorkspaceSpec(prefix="data", post=[forbid_glob("out.txt")])
    host.harness.task = replace(host.harness.task, workspace=guarded)
    report = await end_after_the_function(host)
    assert isinstance(report.error, GuardrailViolation)
    assert directories(host) == []


async def test_a_full_disk_keeps_no_directory(host: Host) -> None:
    full = LocalDiskError.of("/disk", OSError(28, "No space left on device"))
    await end_after_the_function(host, refuse("objects.upload", full))
    assert directories(host) == []


async def test_after_the_decision_no_directory_has_to_stay(host: Host) -> None:
    report = await drain_in(host, "merge")
    assert (report.status, host.harness.runs) == (HANDED_BACK, 1)
    assert directories(host) == []
    await host.next_attempt()
    assert host.harness.runs == 1


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_other_policies_leave_nothing(tmp_path: Path, policy: PolicySetting) -> None:
    host = Host(tmp_path, policy)
    report = await drain_in(host, "objects.upload")
    assert report.status == HANDED_BACK
    assert directories(host) == []
