"""The remedy of each code of runs: a command shows what was found, and a new workflow publishes.

The mistakes are those of `tests/unit/app/runs`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.runs.run_harness import FINISH, RunHarness
from tests.unit.remedies.servers import serve
from tests.unit.remedies.shell import Shell

from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import WorkflowStatus
from perago.domain.outcome import MergeConflict
from perago.domain.run import OnMoved
from perago.testing.faults import answer, crash


class Refused(NamedTuple):
    """A run that was refused; `shown` is what the remedy's command has to print."""

    harness: RunHarness
    report: AttemptReport
    run_branch: str
    shown: str = ""


async def waiting(root: Path, on_moved: OnMoved = OnMoved.REFUSE) -> RunHarness:
    """A run whose tasks have published, with finish waiting."""
    harness = await RunHarness(root, on_moved=on_moved).started()
    await harness.until(FINISH)
    return harness


async def others_wrote_to_the_run(root: Path) -> Refused:
    harness = await waiting(root)
    run = await harness.begun()
    foreign = harness.repository.commit({"data/foreign": b"x"}, branch=run.run_branch)
    return Refused(harness, await harness.report(), run.run_branch, foreign)


async def the_workspace_is_on_another_branch(root: Path) -> Refused:
    harness = await waiting(root)
    run = await harness.begun()
    given = {"repository": "repo", "branch": "main", "refType": "commit", "ref": harness.input}
    return Refused(harness, await harness.finish_again(workspace=given), run.run_branch, run.base)


async def the_run_branch_was_removed(root: Path) -> Refused:
    harness = await waiting(root)
    run = await harness.begun()
    harness.repository.delete_branch(run.run_branch)
    return Refused(harness, await harness.report(), run.run_branch)


async def the_target_moved(root: Path) -> Refused:
    harness = await waiting(root)
    run, head = await harness.begun(), harness.human()
    return Refused(harness, await harness.report(), run.run_branch, head)


async def both_sides_changed_a_path(root: Path) -> Refused:
    harness = await waiting(root, OnMoved.REBASE)
    run, head = await harness.begun(), harness.human("data/kept.txt", b"theirs")
    return Refused(harness, await harness.report(), run.run_branch, head)


async def the_branch_was_made_by_others(root: Path) -> Refused:
    harness = await RunHarness(root).started()
    assert await harness.attempt(harness.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in harness.repository.tags() if name.startswith("perago-base-"))
    run_branch = tag.replace("perago-base-", "perago-run-")
    harness.repository.branch(run_branch, harness.repository.history()[-1].commit)
    await harness.lose_lease()
    return Refused(harness, await harness.report(), run_branch)


async def lakefs_merges_with_a_conflict(root: Path) -> Refused:
    harness = await waiting(root, OnMoved.REBASE)
    run, head = await harness.begun(), harness.human()
    report = await harness.report(answer("branches.merge", MergeConflict("conflict"), nth=3))
    return Refused(harness, report, run.run_branch, head)


async def a_task_runs_again_after_its_run_has_ended(root: Path) -> Refused:
    harness = await waiting(root)
    run = await harness.begun()
    await harness.until(None)
    harness.clock.advance(1)
    rows = [row for row in (await harness.read()).attempts if row.snapshot.task_type == TASK]
    await harness.operator.workflows.rerun(harness.workflow, rows[-1].snapshot.task_id)
    return Refused(harness, await harness.report(), run.run_branch)


SCENES: dict[str, Callable[[Path], Awaitable[Refused]]] = {
    "PRG-N001": others_wrote_to_the_run,
    "PRG-N002": the_workspace_is_on_another_branch,
    "PRG-N003": the_run_branch_was_removed,
    "PRG-N004": the_target_moved,
    "PRG-N005": both_sides_changed_a_path,
    "PRG-N006": the_branch_was_made_by_others,
    "PRG-N007": lakefs_merges_with_a_conflict,
    "PRG-N009": a_task_runs_again_after_its_run_has_ended,
}


@pytest.mark.parametrize("code", SCENES)
def test_a_run_that_was_refused_is_looked_at_and_begun_anew(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    harness, report, run_branch, shown = asyncio.run(_made(SCENES[code], tmp_path / "world"))
    assert code in reason_of(report)
    serve(shell, harness, monkeypatch)
    key = run_branch.removeprefix("perago-run-")
    names = {"REPO": "repo", "BRANCH": "main", "RUN_BRANCH": run_branch, "KEY": key}
    # All of them are in the reason or in the input of the row of finish.
    shell.typed += [reason_of(report), "repo main", run_branch]
    ran = shell.follow_reason(code, **names)
    assert (ran.code, shown in ran.out) == (0, True), ran
    before = len(harness.runs_on_target())
    asyncio.run(_publishes_anew(harness))
    assert len(harness.runs_on_target()) == before + 1


async def _made(make: Callable[[Path], Awaitable[Refused]], root: Path) -> Refused:
    return await make(root)


async def _publishes_anew(harness: RunHarness) -> None:
    if (await harness.read()).status is WorkflowStatus.RUNNING:
        harness.conductor.terminate(harness.workflow, "a new one is started")
    await harness.start()
    await harness.until(None)
    workflow = await harness.read()
    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason


def test_a_run_goes_when_its_workflow_was_terminated(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = asyncio.run(waiting(tmp_path / "world"))
    run = asyncio.run(harness.begun())
    serve(shell, harness, monkeypatch)
    printed = shell(f"perago abandon {run.key}")
    shell.typed.append("repo")  # which the input of the rows names
    listed = shell.follow("PRG-N008", printed, REPO="repo", RUN=run.key)
    assert "RUNNING" in listed.out
    harness.conductor.terminate(harness.workflow, "it is given up")
    assert shell(f"perago abandon {run.key}").code == 0
    assert run.run_branch not in harness.repository.branch_names()
