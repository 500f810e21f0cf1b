"""A task function that ended runs no second time where its worker died before the decision."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker
from tests.dead_owners import let_locks_go
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import assert_accepted

from perago.app.attempt.local_workspace import OUTCOME_NOT_KEPT, OUTCOME_REFUSED
from perago.app.authoring.guardrails import forbid_glob
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.gc.local_pass import sweep_directories
from perago.domain.checkpoints import read_kept_outcome
from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY
from perago.domain.errors import GuardrailViolation
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.ports.errors import LocalDiskError
from perago.ports.workspace import Phase
from perago.testing.faults import Fault, Moment, Refuse, Side, crash, lose_request


class Host:
    """One machine: its workers come one after the other and have one root."""

    def __init__(self, tmp_path: Path, policy: PolicySetting = PolicySetting.SETTLED) -> None:
        self.harness = AttemptHarness(tmp_path, policy)
        self.harness.shared_root = tmp_path / "host"

    @property
    def root(self) -> Path:
        """Where its workers keep their directories."""
        assert self.harness.shared_root is not None
        return self.harness.shared_root

    def worker(self, *faults: Fault) -> AttemptWorker:
        """The next process on this root."""
        return self.harness.worker(faults)

    async def die_after_the_function(self, *, frees_locks: bool = True) -> None:
        """A worker runs the function and dies before anything is staged; Conductor notices."""
        await self.harness.start()
        assert await self.harness.attempt(self.worker(crash(before="compare"))) is None
        assert self.harness.runs == 1
        await self.lose_the_lease(frees_locks=frees_locks)

    async def lose_the_lease(self, *, frees_locks: bool = True) -> None:
        """The response time-out passes, and a retry is scheduled."""
        if frees_locks:
            let_locks_go(self.root)
        await self.harness.lose_lease()

    async def next_attempt(self, *faults: Fault) -> AttemptWorker:
        """The retry, on this root, and the workflow's end."""
        worker = self.worker(*faults)
        await self.harness.report_of(worker)
        await assert_accepted(self.harness)
        return worker

    @property
    def directory(self) -> Path:
        """The directory of the one attempt that died."""
        (found,) = self.root.glob("task_id=*")
        return found

    @property
    def record(self) -> Path:
        """What was kept beside it."""
        (found,) = self.root.glob(".perago-attempts/*.outcome")
        return found

    def downloads(self) -> int:
        """Objects that the last worker downloaded."""
        return self.harness.workers[-1].calls["objects.download"]


def refusals(worker: AttemptWorker) -> list[str]:
    """Why outcomes were refused."""
    warned = [facts for phase, facts in worker.progress.events if phase is Phase.WARNED]
    return [str(facts.get("error")) for facts in warned if facts["warning"] == OUTCOME_REFUSED]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_the_next_attempt_on_the_root_runs_nothing_and_downloads_nothing(host: Host) -> None:
    await host.die_after_the_function()
    assert host.downloads() > 0

    worker = await host.next_attempt()

    assert (host.harness.runs, host.downloads()) == (1, 0)
    listed_at_staging = 1  # what was written is listed, and the input is not
    assert host.harness.workers[-1].calls["objects.list_page"] == listed_at_staging
    phases = [phase for phase, _ in worker.progress.events]
    assert Phase.RECOVERED in phases
    assert Phase.FUNCTION_ENDED not in phases
    assert list(host.root.glob("task_id=*")) == []
    assert list(host.root.glob(".perago-attempts/*")) == []


async def test_an_outcome_survives_a_second_death(host: Host) -> None:
    await host.die_after_the_function()
    assert await host.harness.attempt(host.worker(crash(before="objects.upload"))) is None
    await host.lose_the_lease()

    await host.next_attempt()

    assert (host.harness.runs, host.downloads()) == (1, 0)


async def test_an_unchanged_workspace_is_recovered_too(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.harness.changes = False
    await host.die_after_the_function()
    await host.next_attempt()
    assert (host.harness.runs, host.downloads()) == (1, 0)


async def test_guardrails_after_the_function_are_asked_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    await host.die_after_the_function()
    guarded = WorkspaceSpec(prefix="data", post=[forbid_glob("out.txt")])
    host.harness.task = replace(host.harness.task, workspace=guarded)
    report = await host.harness.report_of(host.worker())
    assert isinstance(report.error, GuardrailViolation)
    assert host.harness.runs == 1


async def test_another_root_runs_the_function(host: Host, tmp_path: Path) -> None:
    await host.die_after_the_function()
    host.harness.shared_root = tmp_path / "another host"
    await host.next_attempt()
    assert host.harness.runs == 2
    assert host.downloads() > 0


async def test_a_worker_that_lives_keeps_its_outcome_to_itself(host: Host) -> None:
    await host.die_after_the_function(frees_locks=False)
    await host.next_attempt()
    assert host.harness.runs == 2
    assert host.record.exists()


def _write(directory: Path) -> None:
    (directory / "out.txt").write_text("a left-over process")


def _add(directory: Path) -> None:
    (directory / "late.txt").write_text("a left-over process")


def _remove(directory: Path) -> None:
    (directory / "kept.txt").unlink()


def _same_size(directory: Path) -> None:
    text = (directory / "out.txt").read_text()
    (directory / "out.txt").write_text(text.upper())


@pytest.mark.parametrize("change", [_write, _add, _remove, _same_size])
async def test_a_changed_directory_is_refused_and_the_function_runs(
    host: Host, change: Callable[[Path], None]
) -> None:
    await host.die_after_the_function()
    changed = host.directory
    change(changed)

    worker = await host.next_attempt()

    assert host.harness.runs == 2
    assert host.downloads() > 0
    (why,) = refusals(worker)
    assert "is not what its task function left" in why
    assert not changed.exists()


async def test_other_params_are_another_execution(host: Host) -> None:
    await host.die_after_the_function()
    row = (await host.harness.read()).attempts[-1]
    await host.harness.operator.workflows.terminate(host.harness.workflow, "other params")
    other = {**row.input_data, "params": {"text": "other"}}
    await host.harness.operator.workflows.rerun(host.harness.workflow, row.snapshot.task_id, other)
    report = await host.harness.report_of(host.worker())
    assert report.error is None
    assert host.harness.runs == 2
    assert host.harness.repository.files()["data/out.txt"] == b"other 2"


def _torn(record: bytes) -> bytes:
    return record[: len(record) // 2]


def _of_another_result(record: bytes) -> bytes:
    return record.replace(rb"\"run\":1", rb"\"run\":7")


def _of_another_format(record: bytes) -> bytes:
    return record.replace(b'"format": 1', b'"format": 9')


def _zeros(record: bytes) -> bytes:
    return bytes(len(record))


def _empty(record: bytes) -> bytes:
    return record[:0]


@pytest.mark.parametrize("damage", [_torn, _of_another_result, _of_another_format, _zeros, _empty])
async def test_a_damaged_record_is_ignored_and_reported(
    host: Host, damage: Callable[[bytes], bytes]
) -> None:
    await host.die_after_the_function()
    before = host.record.read_bytes()
    after = damage(before)
    assert after != before
    host.record.write_bytes(after)

    worker = await host.next_attempt()

    assert host.harness.runs == 2
    (why,) = refusals(worker)
    assert "cannot be read" in why


async def test_a_record_of_another_execution_is_refused(host: Host) -> None:
    await host.die_after_the_function()
    first, _, text = host.record.read_text().partition("\n")
    kept = read_kept_outcome(text)
    assert kept is not None
    other = replace(kept, ran_for=replace(kept.ran_for, input_commit="0" * 64))
    host.record.write_text(f"{first}\n{other.as_text()}")

    worker = await host.next_attempt()

    assert host.harness.runs == 2
    assert len(refusals(worker)) == 1


async def test_a_result_that_the_code_of_today_would_not_return_is_refused(host: Host) -> None:
    await host.die_after_the_function()

    class Renamed(BaseModel):
        number: int

    host.harness.task = replace(host.harness.task, output_model=Renamed)
    worker = host.worker()
    await host.harness.report_of(worker)

    assert len(refusals(worker)) == 1
    assert host.harness.runs == 2


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_other_policies_keep_nothing(tmp_path: Path, policy: PolicySetting) -> None:
    host = Host(tmp_path, policy)
    await host.die_after_the_function()
    assert list(host.root.glob(".perago-attempts/*.outcome")) == []
    await host.next_attempt()
    assert host.harness.runs == 2


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_a_retry_of_other_policies_keeps_nothing_either(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """It has a key, because it looked for decisions, and its attempts do not agree by that."""
    host = Host(tmp_path, policy)
    await host.die_after_the_function()
    assert await host.harness.attempt(host.worker(crash(before="compare"))) is None
    await host.lose_the_lease()
    assert list(host.root.glob(".perago-attempts/*.outcome")) == []

    await host.next_attempt()

    assert host.harness.runs == 3
    assert LOGICAL_EXECUTION_KEY not in host.harness.repository.head().metadata


async def test_a_disk_that_refuses_the_record_costs_no_attempt(host: Host) -> None:
    await host.harness.start()
    moment = Moment("directories.keep_outcome", Side.BEFORE)
    worker = await host.next_attempt(Refuse(moment, LocalDiskError("no space left")))
    warned = [facts for phase, facts in worker.progress.events if phase is Phase.WARNED]
    assert [facts["warning"] for facts in warned] == [OUTCOME_NOT_KEPT]
    assert host.harness.runs == 1


async def test_the_record_says_what_it_is_of(host: Host) -> None:
    await host.die_after_the_function()
    kept = read_kept_outcome(host.record.read_text().partition("\n")[2])
    assert kept is not None
    assert kept.result == {"run": 1, "text": ""}
    assert kept.ran_for.input_commit == host.harness.input
    assert (kept.ran_for.prefix, kept.ran_for.task_name) == ("data", "edit")
    assert json.loads(kept.as_text())["format"] == 1


async def test_gc_keeps_an_outcome_until_its_task_is_over(host: Host) -> None:
    await host.die_after_the_function()
    directory = host.directory
    collector = host.worker().harness
    times = RetentionTimes()

    kept = await sweep_directories(collector.directories, times, collector.queue)
    assert (kept.removed, kept.failed, directory.exists()) == ([], [], True)
    await host.harness.operator.workflows.terminate(host.harness.workflow, "enough")
    swept = await sweep_directories(collector.directories, times, collector.queue)
    assert swept.removed == [directory]
    assert list(host.root.glob(".perago-attempts/*")) == []


async def test_gc_removes_an_outcome_that_is_too_old(host: Host) -> None:
    await host.die_after_the_function()
    directory = host.directory
    collector = host.worker().harness
    times = RetentionTimes()
    host.harness.clock.advance(times.attempt_directory.total_seconds())
    swept = await sweep_directories(collector.directories, times, collector.queue)
    assert swept.removed == [directory]


async def test_gc_keeps_an_outcome_by_its_age_where_conductor_does_not_answer(host: Host) -> None:
    await host.die_after_the_function()
    collector = host.worker().harness
    host.harness.workers[-1].plan(lose_request("queue.read_workflow"))
    kept = await sweep_directories(collector.directories, RetentionTimes(), collector.queue)
    assert (kept.removed, kept.failed) == ([], [])
