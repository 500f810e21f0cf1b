"""The team's own checks of the staged commit: after it is staged, before anything is decided."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast, final

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, assert_accepted, reason_of
from tests.unit.app.gc.gc_scene import DAY, collect, decisions, litter, staging_branches

from perago import StagedView, TaskFailed, TaskTerminalError, WorkspaceSpec, current_attempt
from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import BodyFailedError, CheckFailedError
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.ports.errors import WorkspaceLostError
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, TaskBody
from perago.testing.faults import meanwhile

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]
every_policy = pytest.mark.parametrize("policy", POLICIES)
Check = Callable[[StagedView], None]


def refuse(view: StagedView) -> None:
    raise ValueError(f"{view.size('out.txt')} bytes are too few")


def refuse_for_good(view: StagedView) -> None:
    raise TaskTerminalError(f"wrong customer in {view.added[0]}")


def leave(view: StagedView) -> None:
    raise SystemExit(len(view.paths))


def look_outside(view: StagedView) -> None:
    view.open("../../etc/passwd")


def ask_for_spark(view: StagedView) -> None:
    view.read.parquet("out")


def give_a_verdict(view: StagedView) -> bool:
    return view.size("out.txt") > 100


def harness_with(
    root: Path, policy: PolicySetting, *checks: Check, **changes: object
) -> AttemptHarness:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "checks": list(checks), **changes})
    return AttemptHarness(root, policy, spec=spec)


async def first_attempt(
    harness: AttemptHarness, worker: AttemptWorker | None = None
) -> AttemptReport:
    await harness.start()
    return await harness.report_of(worker or harness.worker())


@every_policy
async def test_a_failed_check_publishes_nothing_and_keeps_what_was_staged(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = harness_with(tmp_path, policy, refuse)

    report = await first_attempt(harness)

    assert isinstance(report.error, CheckFailedError)
    assert report.update is not None
    assert report.status == AttemptStatus.FAILED
    assert harness.above_input() == []
    assert decisions(harness) == []
    (branch,) = staging_branches(harness)
    (staged, *_) = harness.repository.history(branch)
    assert harness.repository.files(branch)["data/out.txt"] == b"new 1"
    said = f"staged commit {staged.commit}: check refuse failed: ValueError: 5 bytes are too few"
    assert report.update.reason == f"{said} [CheckFailedError PRG-G003]"


@every_policy
async def test_a_retry_runs_the_function_again_and_what_then_passes_is_published(
    tmp_path: Path, policy: PolicySetting
) -> None:
    def refuse_first(view: StagedView) -> None:
        if "only-1.txt" in view.added:
            raise TaskFailed("the first is always wrong")

    harness = harness_with(tmp_path, policy, refuse_first)
    report = await first_attempt(harness)
    assert "check refuse_first failed: the first is always wrong" in reason_of(report)

    await harness.finish()

    assert harness.runs == 2
    await assert_accepted(harness)


@every_policy
async def test_a_check_sees_the_staged_commit_and_in_what_it_differs(
    tmp_path: Path, policy: PolicySetting
) -> None:
    seen: list[object] = []

    def look(view: StagedView) -> None:
        seen.append((view.paths, view.added, view.changed, view.removed, view.size("kept.txt")))
        with view.open("changed.txt") as file:
            seen.append((file.read(), file.writable()))
        seen.append(current_attempt().task_name)

    def write(workspace: Path, _run: int) -> None:
        (workspace / "new").mkdir()
        (workspace / "new/file.txt").write_text("new")
        (workspace / "changed.txt").write_text("after")
        (workspace / "old.txt").unlink()

    harness = harness_with(tmp_path, policy, look)
    harness.body = write
    harness.input = harness.repository.commit({"data/changed.txt": b"before"})

    report = await first_attempt(harness)

    assert report.error is None
    paths = ("changed.txt", "kept.txt", "new/file.txt")
    assert seen == [
        (paths, ("new/file.txt",), ("changed.txt",), ("old.txt",), 4),
        (b"after", False),
        "edit",
    ]


@every_policy
async def test_checks_run_after_staging_and_before_the_decision(
    tmp_path: Path, policy: PolicySetting
) -> None:
    found: list[object] = []

    def look(view: StagedView) -> None:
        (branch,) = staging_branches(harness)
        staged = len(harness.repository.files(branch)) - len(harness.repository.files())
        found.append((len(view.added), staged, decisions(harness), harness.above_input()))

    harness = harness_with(tmp_path, policy, look)
    worker = harness.worker()

    report = await first_attempt(harness, worker)

    assert report.error is None
    # Two files were added and one was removed, on the staging branch only.
    assert found == [(2, 1, [], [])]
    phases = [str(phase) for phase, _ in worker.progress.events]
    after = ["decided"] if policy is PolicySetting.SETTLED else []
    start = phases.index("staged")
    told = [each for each in phases[start:] if each in {"staged", "checked", "decided"}]
    assert told == ["staged", "checked", *after]


@every_policy
async def test_nothing_is_checked_when_nothing_changed(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = harness_with(tmp_path, policy, refuse)
    harness.changes = False

    report = await first_attempt(harness)

    assert report.error is None
    await assert_accepted(harness)


async def test_the_first_failed_check_ends_the_checks(tmp_path: Path) -> None:
    ran: list[str] = []
    harness = harness_with(
        tmp_path,
        PolicySetting.SETTLED,
        lambda view: ran.append(view.added[0]),
        refuse,
        lambda view: ran.append("too late" + view.added[0]),
    )
    report = await first_attempt(harness)
    assert isinstance(report.error, CheckFailedError)
    assert ran == ["only-1.txt"]


@pytest.mark.parametrize(
    ("check", "reason", "status"),
    [
        (
            refuse_for_good,
            "check refuse_for_good failed: wrong customer in only-1.txt",
            AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        ),
        (
            leave,
            "check leave failed: SystemExit: it exited with code 3",
            AttemptStatus.FAILED,
        ),
        (
            look_outside,
            "FileNotFoundError: ../../etc/passwd is not in the staged commit",
            AttemptStatus.FAILED,
        ),
        (
            cast("Check", give_a_verdict),
            "it returned bool, expected None; a check fails by raising",
            AttemptStatus.FAILED,
        ),
        (
            ask_for_spark,
            "it has no Spark; use view.open(path) [TaskInputError PRG-I007]",
            AttemptStatus.FAILED,
        ),
    ],
    ids=["terminal", "exit", "a path outside", "a verdict", "no Spark"],
)
async def test_whatever_a_check_raises_fails_the_attempt(
    tmp_path: Path, check: Check, reason: str, status: AttemptStatus
) -> None:
    report = await first_attempt(harness_with(tmp_path, PolicySetting.SETTLED, check))
    assert reason in reason_of(report)
    assert report.status == status


@final
class StoppingBody(TaskBody):
    """Runs the function, and is told to stop while the checks run."""

    def __init__(self, beneath: TaskBody) -> None:
        self._beneath = beneath
        self.limits: list[float] = []

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Stop the second call."""
        self.limits.append(call.seconds_max)
        if call.staged is not None:
            return BodyStopped("drained")
        return await self._beneath.run(call)


async def test_stopped_checks_leave_nothing_behind(tmp_path: Path) -> None:
    harness = harness_with(tmp_path, PolicySetting.SETTLED, refuse)
    worker = harness.worker()
    body = StoppingBody(worker.harness.body)
    ports = replace(worker.harness, body=body)

    report = await first_attempt(harness, replace(worker, harness=ports))

    assert isinstance(report.error, BodyFailedError)
    assert str(report.error) == "drained; the checks of the staged commit were running"
    assert litter(harness) == []


async def test_checks_have_the_time_that_the_function_left(tmp_path: Path) -> None:
    harness = harness_with(tmp_path, PolicySetting.SETTLED, refuse)

    def write_slowly(workspace: Path, _run: int) -> None:
        (workspace / "out.txt").write_text("x")
        harness.clock.advance(3)

    harness.body = write_slowly
    worker = harness.worker()
    body = StoppingBody(worker.harness.body)
    settings = replace(worker.settings, body_seconds=10.0)
    worker = replace(worker, harness=replace(worker.harness, body=body), settings=settings)

    await first_attempt(harness, worker)

    assert body.limits == [10.0, 7.0]


async def test_a_removed_directory_is_no_empty_commit_for_a_check(tmp_path: Path) -> None:
    called: list[StagedView] = []
    # Without a fence the first commit is the staged one, because nothing is tried out before.
    spec = WorkspaceSpec(prefix="data", checks=[called.append])
    harness = AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, spec=spec)

    def clean() -> None:
        (marker,) = harness.root.rglob(".perago-attempt.json")
        shutil.rmtree(marker.parent)

    removed = meanwhile(clean, after="commits.commit")

    report = await first_attempt(harness, harness.worker([removed]))

    assert isinstance(report.error, WorkspaceLostError)
    assert called == []
    assert harness.above_input() == []


async def test_gc_removes_what_a_failed_check_left_when_its_age_has_come(tmp_path: Path) -> None:
    harness = harness_with(tmp_path, PolicySetting.SETTLED, refuse)
    await first_attempt(harness)

    await collect(harness, times=RetentionTimes())
    assert len(staging_branches(harness)) == 1
    harness.clock.advance(DAY + 1)
    await collect(harness, times=RetentionTimes())

    assert litter(harness) == []


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_without_decisions_the_next_pass_of_gc_removes_it(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = harness_with(tmp_path, policy, refuse)
    await first_attempt(harness)
    assert len(staging_branches(harness)) == 1

    await collect(harness, times=RetentionTimes())

    assert litter(harness) == []


async def test_a_terminal_check_ends_the_workflow(tmp_path: Path) -> None:
    harness = harness_with(tmp_path, PolicySetting.SETTLED, refuse_for_good)
    await first_attempt(harness)
    assert (await harness.finish()).status is WorkflowStatus.FAILED
    assert harness.runs == 1
