"""The team's own checks of the staged commit: after it is staged, before anything is decided."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast, final

import pytest
from tests.attempt_worlds import AttemptWorker
from tests.unit.app.attempt.fault_world import FaultWorld, assert_accepted, reason_of
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


def world_with(root: Path, policy: PolicySetting, *checks: Check, **changes: object) -> FaultWorld:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "checks": list(checks), **changes})
    return FaultWorld(root, policy, spec=spec)


async def first_attempt(world: FaultWorld, worker: AttemptWorker | None = None) -> AttemptReport:
    await world.start()
    return await world.report_of(worker or world.worker())


@every_policy
async def test_a_failed_check_publishes_nothing_and_keeps_what_was_staged(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = world_with(tmp_path, policy, refuse)

    report = await first_attempt(world)

    assert isinstance(report.error, CheckFailedError)
    assert report.update is not None
    assert report.status == AttemptStatus.FAILED
    assert world.above_input() == []
    assert decisions(world) == []
    (branch,) = staging_branches(world)
    (staged, *_) = world.repository.history(branch)
    assert world.repository.files(branch)["data/out.txt"] == b"new 1"
    said = f"staged commit {staged.commit}: check refuse failed: ValueError: 5 bytes are too few"
    assert report.update.reason == f"{said} [CheckFailedError PRG-G003]"


@every_policy
async def test_a_retry_runs_the_function_again_and_what_then_passes_is_published(
    tmp_path: Path, policy: PolicySetting
) -> None:
    def refuse_first(view: StagedView) -> None:
        if "only-1.txt" in view.added:
            raise TaskFailed("the first is always wrong")

    world = world_with(tmp_path, policy, refuse_first)
    report = await first_attempt(world)
    assert "check refuse_first failed: the first is always wrong" in reason_of(report)

    await world.finish()

    assert world.runs == 2
    await assert_accepted(world)


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

    world = world_with(tmp_path, policy, look)
    world.body = write
    world.input = world.repository.commit({"data/changed.txt": b"before"})

    report = await first_attempt(world)

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
        (branch,) = staging_branches(world)
        staged = len(world.repository.files(branch)) - len(world.repository.files())
        found.append((len(view.added), staged, decisions(world), world.above_input()))

    world = world_with(tmp_path, policy, look)
    worker = world.worker()

    report = await first_attempt(world, worker)

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
    world = world_with(tmp_path, policy, refuse)
    world.changes = False

    report = await first_attempt(world)

    assert report.error is None
    await assert_accepted(world)


async def test_the_first_failed_check_ends_the_checks(tmp_path: Path) -> None:
    ran: list[str] = []
    world = world_with(
        tmp_path,
        PolicySetting.SETTLED,
        lambda view: ran.append(view.added[0]),
        refuse,
        lambda view: ran.append("too late" + view.added[0]),
    )
    report = await first_attempt(world)
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
    report = await first_attempt(world_with(tmp_path, PolicySetting.SETTLED, check))
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
    world = world_with(tmp_path, PolicySetting.SETTLED, refuse)
    worker = world.worker()
    body = StoppingBody(worker.world.body)
    ports = replace(worker.world, body=body)

    report = await first_attempt(world, replace(worker, world=ports))

    assert isinstance(report.error, BodyFailedError)
    assert str(report.error) == "drained; the checks of the staged commit were running"
    assert litter(world) == []


async def test_checks_have_the_time_that_the_function_left(tmp_path: Path) -> None:
    world = world_with(tmp_path, PolicySetting.SETTLED, refuse)

    def write_slowly(workspace: Path, _run: int) -> None:
        (workspace / "out.txt").write_text("x")
        world.clock.advance(3)

    world.body = write_slowly
    worker = world.worker()
    body = StoppingBody(worker.world.body)
    settings = replace(worker.settings, body_seconds=10.0)
    worker = replace(worker, world=replace(worker.world, body=body), settings=settings)

    await first_attempt(world, worker)

    assert body.limits == [10.0, 7.0]


async def test_a_removed_directory_is_no_empty_commit_for_a_check(tmp_path: Path) -> None:
    called: list[StagedView] = []
    # Without a fence the first commit is the staged one, because nothing is tried out before.
    spec = WorkspaceSpec(prefix="data", checks=[called.append])
    world = FaultWorld(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, spec=spec)

    def clean() -> None:
        (marker,) = world.root.rglob(".perago-attempt.json")
        shutil.rmtree(marker.parent)

    removed = meanwhile(clean, after="commits.commit")

    report = await first_attempt(world, world.worker([removed]))

    assert isinstance(report.error, WorkspaceLostError)
    assert called == []
    assert world.above_input() == []


async def test_gc_removes_what_a_failed_check_left_when_its_age_has_come(tmp_path: Path) -> None:
    world = world_with(tmp_path, PolicySetting.SETTLED, refuse)
    await first_attempt(world)

    await collect(world, times=RetentionTimes())
    assert len(staging_branches(world)) == 1
    world.clock.advance(DAY + 1)
    await collect(world, times=RetentionTimes())

    assert litter(world) == []


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_without_decisions_the_next_pass_of_gc_removes_it(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = world_with(tmp_path, policy, refuse)
    await first_attempt(world)
    assert len(staging_branches(world)) == 1

    await collect(world, times=RetentionTimes())

    assert litter(world) == []


async def test_a_terminal_check_ends_the_workflow(tmp_path: Path) -> None:
    world = world_with(tmp_path, PolicySetting.SETTLED, refuse_for_good)
    await first_attempt(world)
    assert (await world.finish()).status is WorkflowStatus.FAILED
    assert world.runs == 1
