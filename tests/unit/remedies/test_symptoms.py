"""A workflow does not end: what `perago explain` and `perago attempts` say is enough to go on.

Three set-ups that an operator meets knowing only `--help`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.runs.run_harness import FINISH, RunHarness
from tests.unit.remedies.servers import serve
from tests.unit.remedies.shell import Shell

from perago.domain.policy import PolicySetting
from perago.testing.faults import crash


async def waits_in_a_domain(root: Path) -> AttemptHarness:
    harness = await AttemptHarness(root, PolicySetting.SETTLED).started()
    harness.conductor.terminate(harness.workflow, "it is started in a domain")
    given = {"workspace": harness.workspace()}
    harness.workflow = await harness.operator.workflows.start(
        "flow", given, task_to_domain={"*": "blue"}
    )
    assert await harness.attempt(harness.worker()) is None, "a worker without the domain has it"
    return harness


async def was_retried_three_times(root: Path) -> AttemptHarness:
    harness = AttemptHarness(root, PolicySetting.SETTLED)
    harness.human("data/theirs.txt")
    await harness.start()
    await harness.report()
    for _ in range(2):
        await harness.operator.workflows.retry(harness.workflow)
        await harness.report()
    return harness


async def has_a_target_that_moved(root: Path) -> AttemptHarness:
    harness = await RunHarness(root).started()
    await harness.until(FINISH)
    harness.human()
    await harness.report()
    return harness


Asked = Callable[[Callable[[Path], Awaitable[AttemptHarness]]], tuple[str, str]]


@pytest.fixture
def asked(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What both commands print of the workflow of a set-up."""

    async def made(make: Callable[[Path], Awaitable[AttemptHarness]]) -> AttemptHarness:
        return await make(tmp_path / "world")

    def ask(make: Callable[[Path], Awaitable[AttemptHarness]]) -> tuple[str, str]:
        harness = asyncio.run(made(make))
        serve(shell, harness, monkeypatch)
        ran = [shell(f"perago {name} {harness.workflow}") for name in ("explain", "attempts")]
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
    async def ended() -> AttemptHarness:
        harness = await AttemptHarness(
            tmp_path / "world", PolicySetting.SETTLED, body=body
        ).started()
        await harness.attempt(harness.worker([crash(after="decide")]))
        await harness.operator.workflows.terminate(harness.workflow, "its code was corrected")
        return harness

    harness = asyncio.run(ended())
    serve(shell, harness, monkeypatch)
    ran = shell(f"perago reset-task {harness.workflow} edit")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == (
        f"reset: edit of workflow {harness.workflow}; its next attempt runs the task function"
    )
    assert lines[1].startswith("left: perago-attempt-")
