"""How `perago watch` reads: with how many requests, how often, and what it does in an outage."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.inspection.test_attempts import attempt, started

from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.inspection.attempts import InspectionTools, Question
from perago.app.inspection.watcher import (
    COMMITS_READ_MAX,
    FIRST_WAIT_SECONDS,
    LAST_WAIT_SECONDS,
    Watcher,
)
from perago.app.page.model import PageView, Step
from perago.domain.attempt_history import NowhereToLookError
from perago.domain.text import NO_SECRETS
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import always, crash, unavailable

REQUESTS_OF_A_READING = 7  # the workflow, its target, two listings of branches and three of tags


def watching(
    harness: AttemptHarness, injector: FaultInjector, workflow: str | None = None
) -> Watcher:
    """A watcher whose requests pass a fault injector."""
    lakefs = faulty_installation(lakefs_installation(harness.lakefs, WorkerHandle()), injector)
    conductor = conductor_installation(harness.conductor, WorkerHandle())
    workflows = faulty_installation(conductor, injector).workflows
    tools = InspectionTools(lakefs, harness.clock, workflows)
    return Watcher(tools, Question(workflow or harness.workflow), "watch", NO_SECRETS.masked)


def staged_times(page: PageView) -> list[float | None]:
    """When each attempt staged, as far as the page knows."""
    attempts = page.scenes[0].attempts
    return [step.at for each in attempts for step in each.steps if step.name is Step.STAGED]


async def test_a_reading_is_seven_requests_and_a_staged_commit_is_read_once(
    tmp_path: Path,
) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    await attempt(harness, crash(after="decide"))
    watcher = watching(harness, injector)
    page = await watcher.read()
    assert injector.calls.total() == REQUESTS_OF_A_READING + 1, injector.calls
    assert injector.calls["commits.read"] == 1
    assert staged_times(page)[0] is not None
    for _ in range(3):
        injector.calls.clear()
        await watcher.read()
        assert injector.calls.total() == REQUESTS_OF_A_READING, injector.calls


async def test_of_many_staged_commits_some_are_read_each_time_the_newest_first(
    tmp_path: Path,
) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    for _ in range(COMMITS_READ_MAX + 2):
        await attempt(harness, crash(before="decide"))
    watcher = watching(harness, injector)
    first = staged_times(await watcher.read())[: COMMITS_READ_MAX + 2]
    assert [each is not None for each in first] == [False, False, *[True] * COMMITS_READ_MAX]
    assert injector.calls.total() == REQUESTS_OF_A_READING + COMMITS_READ_MAX
    assert None not in staged_times(await watcher.read())[: COMMITS_READ_MAX + 2]


async def test_nothing_new_makes_it_slower_and_a_change_fast_again(tmp_path: Path) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    watcher = watching(harness, injector)
    first = await watcher.read()
    assert watcher.wait == FIRST_WAIT_SECONDS
    for _ in range(8):
        assert await watcher.read() is first
    assert watcher.wait == LAST_WAIT_SECONDS
    await attempt(harness)
    assert await watcher.read() is not first
    assert watcher.wait == FIRST_WAIT_SECONDS


async def test_a_workflow_that_has_ended_is_not_live(tmp_path: Path) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    watcher = watching(harness, injector)
    assert (await watcher.read()).live
    await attempt(harness)
    assert not (await watcher.read()).live


@pytest.mark.parametrize("call", ["workflows.read", "commits.first_parents", "branches.list_page"])
async def test_an_outage_takes_nothing_off_the_page_and_is_said(tmp_path: Path, call: str) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    await attempt(harness, crash(after="decide"))
    watcher = watching(harness, injector)
    before = await watcher.read()
    injector.plan(always(unavailable(call)))
    during = await watcher.read()
    assert during.scenes[0].attempts == before.scenes[0].attempts
    assert during.scenes[0].repositories == before.scenes[0].repositories
    assert during.live
    assert "What is below was read before that." in during.notice
    assert during.read_at == before.read_at
    again = await watcher.read()
    assert again is during, "the page does not change while the outage lasts"


async def test_after_an_outage_the_page_goes_on(tmp_path: Path) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    watcher = watching(harness, injector)
    await watcher.read()
    injector.plan(unavailable("workflows.read"))
    assert "Conductor did not answer" in (await watcher.read()).notice
    await attempt(harness)
    after = await watcher.read()
    assert (after.notice, after.live) == ("", False)


async def test_an_end_that_was_not_read_whole_does_not_stop_it(tmp_path: Path) -> None:
    harness, injector = await started(tmp_path), FaultInjector([])
    watcher = watching(harness, injector)
    await watcher.read()
    await attempt(harness)
    injector.plan(unavailable("commits.first_parents"))
    during = await watcher.read()
    assert (during.scenes[0].status, during.live) == ("COMPLETED", True)
    assert not (await watcher.read()).live


async def test_the_first_reading_raises_what_goes_wrong(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    with pytest.raises(NowhereToLookError, match="Conductor does not know workflow nothing"):
        await watching(harness, FaultInjector([]), "nothing").read()


async def test_a_first_reading_without_lakefs_shows_the_rows_and_looks_again(
    tmp_path: Path,
) -> None:
    harness = await started(tmp_path)
    await attempt(harness)
    watcher = watching(harness, FaultInjector([unavailable("commits.first_parents")]))
    page = await watcher.read()
    assert (page.scenes[0].status, page.live, page.scenes[0].repositories) == (
        "COMPLETED",
        True,
        (),
    )
    assert page.scenes[0].missing[0].startswith("lakeFS was not read to the end for repo")
    page = await watcher.read()
    assert (page.live, len(page.scenes[0].repositories)) == (False, 1)
