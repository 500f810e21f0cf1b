"""A workflow does not end: what `perago explain` and `perago attempts` say is enough to go on.

Three set-ups that an operator meets knowing only `--help`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld
from tests.unit.app.runs.run_world import FINISH, RunWorld
from tests.unit.remedies.servers import serve
from tests.unit.remedies.shell import Shell

from perago.domain.policy import PolicySetting
from perago.testing.faults import crash


async def waits_in_a_domain(root: Path) -> FaultWorld:
    world = await FaultWorld(root, PolicySetting.SETTLED).started()
    world.conductor.terminate(world.workflow, "it is started in a domain")
    given = {"workspace": world.workspace()}
    world.workflow = await world.operator.workflows.start(
        "flow", given, task_to_domain={"*": "blue"}
    )
    assert await world.attempt(world.worker()) is None, "a worker without the domain has it"
    return world


async def was_retried_three_times(root: Path) -> FaultWorld:
    world = FaultWorld(root, PolicySetting.SETTLED)
    world.human("data/theirs.txt")
    await world.start()
    await world.report()
    for _ in range(2):
        await world.operator.workflows.retry(world.workflow)
        await world.report()
    return world


async def has_a_target_that_moved(root: Path) -> FaultWorld:
    world = await RunWorld(root).started()
    await world.until(FINISH)
    world.human()
    await world.report()
    return world


Asked = Callable[[Callable[[Path], Awaitable[FaultWorld]]], tuple[str, str]]


@pytest.fixture
def asked(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What both commands print of the workflow of a set-up."""

    async def made(make: Callable[[Path], Awaitable[FaultWorld]]) -> FaultWorld:
        return await make(tmp_path / "world")

    def ask(make: Callable[[Path], Awaitable[FaultWorld]]) -> tuple[str, str]:
        world = asyncio.run(made(make))
        serve(shell, world, monkeypatch)
        ran = [shell(f"perago {name} {world.workflow}") for name in ("explain", "attempts")]
        assert [each.code for each in ran] == [0, 0]
        return ran[0].out, ran[1].out

    return ask


def test_a_row_in_a_domain_that_no_worker_polls(asked: Asked) -> None:
    explained, attempts = asked(waits_in_a_domain)
    assert "in the domain blue and no worker has polled it" in explained
    assert "Start a worker with --domain blue, because one without it polls another" in explained
    assert explained.endswith("\n  perago start MODULE --domain blue\n")
    assert "  waits: edit attempt 1 in the domain blue\n" in attempts


def test_a_retry_that_ends_the_same_way_every_time(asked: Asked) -> None:
    explained, attempts = asked(was_retried_three_times)
    assert "another writer published: a writer other than Perago" in explained
    assert "its last 3 attempts ended with PRG-F002" in explained
    assert "start a new workflow from it. `perago submit flow " in explained
    assert attempts.count("  why: ") == 1
    assert "  why: edit attempts 1 to 3: main cannot publish from input ref" in attempts


def test_a_run_whose_target_moved_has_nothing_on_its_target(asked: Asked) -> None:
    explained, _ = asked(has_a_target_that_moved)
    assert "0 of 4 tasks that have begun have a publication on a target branch" in explained
    assert "; 2 have theirs on a run, which `perago runs repo` lists." in explained


def raises(_: Path, __: int) -> None:
    """What a task function does that has a defect."""
    raise ValueError("broken")


@pytest.mark.parametrize("body", [None, raises])
def test_a_reset_says_what_it_has_reset(
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: Callable[[Path, int], None] | None,
) -> None:
    async def ended() -> FaultWorld:
        world = await FaultWorld(tmp_path / "world", PolicySetting.SETTLED, body=body).started()
        await world.attempt(world.worker([crash(after="decide")]))
        await world.operator.workflows.terminate(world.workflow, "its code was corrected")
        return world

    world = asyncio.run(ended())
    serve(shell, world, monkeypatch)
    ran = shell(f"perago reset-task {world.workflow} edit")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == (
        f"reset: edit of workflow {world.workflow}; its next attempt runs the task function"
    )
    assert lines[1].startswith("left: perago-attempt-")
