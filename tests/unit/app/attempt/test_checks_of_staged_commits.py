"""The team's own checks of the staged commit: after it is staged, before anything is decided."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast, final

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted
from tests.unit.app.gc.gc_scene import DAY, collect, decisions, litter, staging_branches

from perago import StagedView, TaskFailed, TaskTerminalError, WorkspaceSpec, current_attempt
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import BodyFailedError, CheckFailedError
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.ports.errors import WorkspaceLostError
from perago.ports.task_body import BodyCall, BodyOutcome, BodyStopped, TaskBody
from perago.ports.workspace import Phase
from perago.testing import AttemptStory, Fault, meanwhile

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


def checked_by(*checks: Check) -> WorkspaceSpec:
    return WorkspaceSpec(prefix="data", checks=list(checks))


def scene_with(root: Path, policy: PolicySetting, *checks: Check) -> AttemptScene:
    return AttemptScene(root, policy, spec=checked_by(*checks))


def harness_with(root: Path, policy: PolicySetting, *checks: Check) -> AttemptHarness:
    return AttemptHarness(root, policy, spec=checked_by(*checks))


async def first_attempt(scene: AttemptScene, *faults: Fault) -> AttemptStory:
    await scene.start()
    return await scene.next_attempt(*faults)


@every_policy
async def test_a_failed_check_publishes_nothing_and_keeps_what_was_staged(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = scene_with(tmp_path, policy, refuse)

    story = await first_attempt(scene)

    assert story.facts_of(Phase.ENDED)["code"] == CheckFailedError.code
    assert story.status == AttemptStatus.FAILED
    assert scene.above_input() == []
    assert decisions(scene) == []
    (branch,) = staging_branches(scene)
    (staged, *_) = scene.repository.history(branch)
    assert scene.repository.files(branch)["data/out.txt"] == b"new 1"
    said = f"staged commit {staged.commit}: check refuse failed: ValueError: 5 bytes are too few"
    assert story.reason == f"{said} [CheckFailedError PRG-G003]"


@every_policy
async def test_a_retry_runs_the_function_again_and_what_then_passes_is_published(
    tmp_path: Path, policy: PolicySetting
) -> None:
    def refuse_first(view: StagedView) -> None:
        if "only-1.txt" in view.added:
            raise TaskFailed("the first is always wrong")

    scene = scene_with(tmp_path, policy, refuse_first)
    story = await first_attempt(scene)
    assert "check refuse_first failed: the first is always wrong" in str(story.reason)

    await scene.finished()

    assert scene.runs == 2
    await assert_accepted(scene)


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

    scene = scene_with(tmp_path, policy, look)
    scene.body = write
    scene.input = scene.repository.commit({"data/changed.txt": b"before"})

    story = await first_attempt(scene)

    assert story.accepted, story.reason
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
        (branch,) = staging_branches(scene)
        staged = len(scene.repository.files(branch)) - len(scene.repository.files())
        found.append((len(view.added), staged, decisions(scene), scene.above_input()))

    scene = scene_with(tmp_path, policy, look)

    story = await first_attempt(scene)

    assert story.accepted, story.reason
    # Two files were added and one was removed, on the staging branch only.
    assert found == [(2, 1, [], [])]
    phases = story.phases()
    after = ["decided"] if policy is PolicySetting.SETTLED else []
    start = phases.index("staged")
    told = [each for each in phases[start:] if each in {"staged", "checked", "decided"}]
    assert told == ["staged", "checked", *after]


@every_policy
async def test_nothing_is_checked_when_nothing_changed(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = scene_with(tmp_path, policy, refuse)
    scene.changes = False

    story = await first_attempt(scene)

    assert story.accepted, story.reason
    await assert_accepted(scene)


async def test_the_first_failed_check_ends_the_checks(tmp_path: Path) -> None:
    ran: list[str] = []
    scene = scene_with(
        tmp_path,
        PolicySetting.SETTLED,
        lambda view: ran.append(view.added[0]),
        refuse,
        lambda view: ran.append("too late" + view.added[0]),
    )
    story = await first_attempt(scene)
    assert story.facts_of(Phase.ENDED)["code"] == CheckFailedError.code
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
    story = await first_attempt(scene_with(tmp_path, PolicySetting.SETTLED, check))
    assert reason in str(story.reason)
    assert story.status == status


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

    await harness.start()
    report = await harness.report_of(replace(worker, harness=ports))

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

    await harness.start()
    await harness.report_of(worker)

    assert body.limits == [10.0, 7.0]


async def test_a_removed_directory_is_no_empty_commit_for_a_check(tmp_path: Path) -> None:
    called: list[StagedView] = []
    # Without a fence the first commit is the staged one, because nothing is tried out before.
    spec = WorkspaceSpec(prefix="data", checks=[called.append])
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False, spec=spec)

    def clean() -> None:
        (marker,) = scene.directories()
        shutil.rmtree(marker.parent)

    removed = meanwhile(clean, after="commits.commit")

    story = await first_attempt(scene, removed)

    assert story.facts_of(Phase.ENDED)["code"] == WorkspaceLostError.code
    assert called == []
    assert scene.above_input() == []


async def test_gc_removes_what_a_failed_check_left_when_its_age_has_come(tmp_path: Path) -> None:
    harness = harness_with(tmp_path, PolicySetting.SETTLED, refuse)
    await harness.start()
    await harness.report()

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
    await harness.start()
    await harness.report()
    assert len(staging_branches(harness)) == 1

    await collect(harness, times=RetentionTimes())

    assert litter(harness) == []


async def test_a_terminal_check_ends_the_workflow(tmp_path: Path) -> None:
    scene = scene_with(tmp_path, PolicySetting.SETTLED, refuse_for_good)
    await first_attempt(scene)
    assert (await scene.finished()).status is WorkflowStatus.FAILED
    assert scene.runs == 1
