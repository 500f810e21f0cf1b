"""The remedy of each code of runs: a command shows what was found, and a new workflow publishes.

The mistakes are those of `tests/unit/app/runs`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.app.attempt.fault_world import TASK, reason_of
from tests.unit.app.runs.run_world import FINISH, RunWorld
from tests.unit.remedies.servers import serve
from tests.unit.remedies.shell import Shell

from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import WorkflowStatus
from perago.domain.outcome import MergeConflict
from perago.domain.run import OnMoved
from perago.testing.faults import answer, crash


class Refused(NamedTuple):
    """A run that was refused; `shown` is what the remedy's command has to print."""

    world: RunWorld
    report: AttemptReport
    run_branch: str
    shown: str = ""


async def waiting(root: Path, on_moved: OnMoved = OnMoved.REFUSE) -> RunWorld:
    """A run whose tasks have published, with finish waiting."""
    world = await RunWorld(root, on_moved=on_moved).started()
    await world.until(FINISH)
    return world


async def others_wrote_to_the_run(root: Path) -> Refused:
    world = await waiting(root)
    run = await world.begun()
    foreign = world.repository.commit({"data/foreign": b"x"}, branch=run.run_branch)
    return Refused(world, await world.report(), run.run_branch, foreign)


async def the_workspace_is_on_another_branch(root: Path) -> Refused:
    world = await waiting(root)
    run = await world.begun()
    given = {"repository": "repo", "branch": "main", "refType": "commit", "ref": world.input}
    return Refused(world, await world.finish_again(workspace=given), run.run_branch, run.base)


async def the_run_branch_was_removed(root: Path) -> Refused:
    world = await waiting(root)
    run = await world.begun()
    world.repository.delete_branch(run.run_branch)
    return Refused(world, await world.report(), run.run_branch)


async def the_target_moved(root: Path) -> Refused:
    world = await waiting(root)
    run, head = await world.begun(), world.human()
    return Refused(world, await world.report(), run.run_branch, head)


async def both_sides_changed_a_path(root: Path) -> Refused:
    world = await waiting(root, OnMoved.REBASE)
    run, head = await world.begun(), world.human("data/kept.txt", b"theirs")
    return Refused(world, await world.report(), run.run_branch, head)


async def the_branch_was_made_by_others(root: Path) -> Refused:
    world = await RunWorld(root).started()
    assert await world.attempt(world.worker([crash(after="tags.create")])) is None
    (tag,) = (name for name in world.repository.tags() if name.startswith("perago-base-"))
    run_branch = tag.replace("perago-base-", "perago-run-")
    world.repository.branch(run_branch, world.repository.history()[-1].commit)
    await world.lose_lease()
    return Refused(world, await world.report(), run_branch)


async def lakefs_merges_with_a_conflict(root: Path) -> Refused:
    world = await waiting(root, OnMoved.REBASE)
    run, head = await world.begun(), world.human()
    report = await world.report(answer("branches.merge", MergeConflict("conflict"), nth=3))
    return Refused(world, report, run.run_branch, head)


async def a_task_runs_again_after_its_run_has_ended(root: Path) -> Refused:
    world = await waiting(root)
    run = await world.begun()
    await world.until(None)
    world.clock.advance(1)
    rows = [row for row in (await world.read()).attempts if row.snapshot.task_type == TASK]
    await world.operator.workflows.rerun(world.workflow, rows[-1].snapshot.task_id)
    return Refused(world, await world.report(), run.run_branch)


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
    world, report, run_branch, shown = asyncio.run(_made(SCENES[code], tmp_path / "world"))
    assert code in reason_of(report)
    serve(shell, world, monkeypatch)
    key = run_branch.removeprefix("perago-run-")
    names = {"REPO": "repo", "BRANCH": "main", "RUN_BRANCH": run_branch, "KEY": key}
    # All of them are in the reason or in the input of the row of finish.
    shell.typed += [reason_of(report), "repo main", run_branch]
    ran = shell.follow_reason(code, **names)
    assert (ran.code, shown in ran.out) == (0, True), ran
    before = len(world.runs_on_target())
    asyncio.run(_publishes_anew(world))
    assert len(world.runs_on_target()) == before + 1


async def _made(make: Callable[[Path], Awaitable[Refused]], root: Path) -> Refused:
    return await make(root)


async def _publishes_anew(world: RunWorld) -> None:
    if (await world.read()).status is WorkflowStatus.RUNNING:
        world.conductor.terminate(world.workflow, "a new one is started")
    await world.start()
    await world.until(None)
    workflow = await world.read()
    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason


def test_a_run_goes_when_its_workflow_was_terminated(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = asyncio.run(waiting(tmp_path / "world"))
    run = asyncio.run(world.begun())
    serve(shell, world, monkeypatch)
    printed = shell(f"perago abandon {run.key}")
    shell.typed.append("repo")  # which the input of the rows names
    listed = shell.follow("PRG-N008", printed, REPO="repo", RUN=run.key)
    assert "RUNNING" in listed.out
    world.conductor.terminate(world.workflow, "it is given up")
    assert shell(f"perago abandon {run.key}").code == 0
    assert run.run_branch not in world.repository.branch_names()
