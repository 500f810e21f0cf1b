"""A fault at every remote call of begin and of finish, on in-memory servers.

Whatever happens, the target never shows a part of a run, and shows a finished run once and whole.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.runs.run_harness import BEGIN, FINISH, RunHarness

from perago.app.worker.bodies import WaitingOrder
from perago.domain.attempt import WorkflowStatus
from perago.domain.hand_back import Cause
from perago.domain.run import History, OnMoved
from perago.ports.task_body import BodyStopped
from perago.testing.faults import (
    ANY_CALL,
    Crash,
    Meanwhile,
    Moment,
    Side,
    Until,
    Zombie,
    arrive_late,
    lose_answer,
    lose_request,
)

pytestmark = pytest.mark.scale

MINE = {"data/kept.txt", "data/step-1", "data/step-2"}


@dataclass(frozen=True)
class Way:
    """One way through begin or finish."""

    task: str
    on_moved: OnMoved = OnMoved.REFUSE
    history: History = History.MERGE
    moved: bool = False

    async def harness(self, root: Path) -> RunHarness:
        """A new harness in which the attempt of this task waits."""
        harness = await RunHarness(root, on_moved=self.on_moved, history=self.history).started()
        await harness.until(self.task)
        if self.moved:
            harness.human()
        return harness


WAYS: Mapping[str, Way] = {
    "begin": Way(BEGIN),
    "finish": Way(FINISH),
    "squash": Way(FINISH, history=History.SQUASH),
    "rebase": Way(FINISH, on_moved=OnMoved.REBASE, moved=True),
    "squash and rebase": Way(FINISH, on_moved=OnMoved.REBASE, history=History.SQUASH, moved=True),
}
EACH_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


async def at_each_request(root: Path, way: Way) -> AsyncIterator[tuple[int, RunHarness]]:
    """For each request of a healthy attempt its number, and a harness whose attempt waits for it.

    The first one is the poll.
    """
    healthy = await way.harness(root / "healthy")
    assert (await healthy.report()).error is None
    for nth in range(2, healthy.requests(-1).total() + 1):
        yield nth, await way.harness(root / str(nth))


async def assert_whole_or_nothing(harness: RunHarness) -> None:
    """What holds at any moment: the target has all of the run or nothing of it."""
    files = harness.repository.files()
    shown = {path for path in files if path in MINE and files[path] != b"kept"}
    assert shown in (set(), MINE)
    assert bool(shown) is (len(harness.runs_on_target()) == 1)


async def bring_to_its_end(harness: RunHarness) -> None:
    """Healthy workers, and the time-outs of leases that nobody keeps."""
    for _ in range(20):
        if (await harness.read()).status is not WorkflowStatus.RUNNING:
            return
        if await harness.attempt(harness.worker()) is None:
            await harness.lose_lease()
        await assert_whole_or_nothing(harness)


@pytest.mark.parametrize("side", Side)
@EACH_WAY
async def test_a_death_at_any_call_publishes_the_run_once_or_not_yet(
    tmp_path: Path, way: Way, side: Side
) -> None:
    async for nth, harness in at_each_request(tmp_path, way):
        await harness.attempt(harness.worker([Crash(Moment(ANY_CALL, side, nth=nth))]))
        dead = harness.workers[-1]
        await assert_whole_or_nothing(harness)
        await bring_to_its_end(harness)
        try:
            await harness.assert_published(branch_gone=harness.workers[-1] is not dead)
        except AssertionError as error:
            error.add_note(f"death {side} call {nth}: {harness.requests(-1)}")
            raise


@pytest.mark.parametrize("lost", [lose_answer, lose_request])
@EACH_WAY
async def test_a_lost_request_or_answer_at_any_call_costs_no_attempt(
    tmp_path: Path, way: Way, lost: type
) -> None:
    async for nth, harness in at_each_request(tmp_path, way):
        report = await harness.report(lost(ANY_CALL, nth=nth))
        try:
            assert report.error is None
            await bring_to_its_end(harness)
            workflow = await harness.assert_published(branch_gone=False)
            assert all(row.snapshot.retry_count == 0 for row in workflow.attempts)
        except AssertionError as error:
            error.add_note(f"call {nth} of {harness.requests(-1)}")
            raise


@EACH_WAY
async def test_a_request_that_arrives_after_everything_has_ended_changes_nothing(
    tmp_path: Path, way: Way
) -> None:
    arrived = 0
    async for nth, harness in at_each_request(tmp_path, way):
        await harness.report(arrive_late(ANY_CALL, nth=nth))
        sender = harness.workers[-1]
        await bring_to_its_end(harness)
        history = harness.repository.history()
        while sender.late:
            await sender.arrive_late()
            arrived += 1
        assert harness.repository.history() == history
        await harness.assert_published(branch_gone=False)
    assert arrived > 0


@EACH_WAY
async def test_an_attempt_that_goes_on_after_its_retry_has_ended_changes_nothing(
    tmp_path: Path, way: Way
) -> None:
    async for nth, harness in at_each_request(tmp_path, way):
        zombie = Zombie(Moment(ANY_CALL, Side.BEFORE, nth=nth), Until.ACCEPTED)
        worker = harness.worker([zombie])
        sleeper = harness.workers[-1]
        waiting = await harness.waits()
        assert waiting is not None
        record = await worker.poll(waiting)
        assert record is not None
        running = asyncio.ensure_future(worker.run(record))
        while not (sleeper.waits_for or running.done()):  # noqa: ASYNC110 - driven by hand
            await asyncio.sleep(0)
        await harness.lose_lease()
        await bring_to_its_end(harness)
        history = harness.repository.history()
        sleeper.release()
        await harness.drive(running)
        assert harness.repository.history() == history
        await harness.assert_published(branch_gone=False)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("on_moved", OnMoved)
async def test_a_foreign_commit_at_any_call_of_finish_is_kept(
    tmp_path: Path, on_moved: OnMoved, side: Side
) -> None:
    refused = 0
    async for nth, harness in at_each_request(tmp_path, Way(FINISH, on_moved=on_moved)):
        path = "elsewhere/human.txt"
        report = await harness.report(Meanwhile(Moment(ANY_CALL, side, nth=nth), harness.human))
        assert harness.repository.files()[path] == b"human"
        if report.error is None:
            await harness.assert_published()
        else:
            assert on_moved is OnMoved.REFUSE
            assert "PRG-N004" in reason_of(report)
            await harness.assert_untouched()
            refused += 1
    assert (refused > 5) is (on_moved is OnMoved.REFUSE)


@pytest.mark.parametrize("side", Side)
@EACH_WAY
async def test_an_order_to_stop_at_any_call_hands_the_row_back_or_comes_too_late(
    tmp_path: Path, way: Way, side: Side
) -> None:
    handed_back = 0
    async for nth, harness in at_each_request(tmp_path, way):
        order: asyncio.Future[BodyStopped] = asyncio.get_running_loop().create_future()

        async def stop(order: "asyncio.Future[BodyStopped]" = order) -> None:
            order.set_result(BodyStopped("worker draining: a deploy", Cause.DRAIN))
            for _ in range(10):  # until the attempt has heard of it
                await asyncio.sleep(0)

        worker = harness.worker([Meanwhile(Moment(ANY_CALL, side, nth=nth), stop)])
        worker = replace(worker, harness=replace(worker.harness, stop_order=WaitingOrder(order)))
        report = await harness.report_of(worker)
        handed_back += report.status == "HANDED_BACK"
        assert report.error is None or report.status == "HANDED_BACK", report
        await assert_whole_or_nothing(harness)
        await bring_to_its_end(harness)
        await harness.assert_published(branch_gone=False)
    assert handed_back > 5
