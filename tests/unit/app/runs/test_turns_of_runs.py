"""Two runs that one process finishes at the same time: of one target in turns, of two side by side.

Without the turn both would look at the head of the target before one of them moves it.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.runs.run_harness import FINISH, RunHarness, refused, waiting

from perago.adapters.system import AsyncioConcurrency
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.worker.bodies import WaitingOrder
from perago.domain.commit_metadata import RUN, WORKFLOW_ID
from perago.domain.hand_back import Cause
from perago.ports.task_body import BodyStopped
from perago.testing.fault_injector import FaultInjector
from perago.testing.faults import zombie

TURNS_MAX = 2_000  # far more than a whole finish takes
Running = asyncio.Future[AttemptReport]


@pytest.fixture
def concurrency() -> Iterator[AsyncioConcurrency]:
    """What the attempts of one worker share."""
    one_process = AsyncioConcurrency()
    yield one_process
    one_process.close()


@dataclass
class TwoFinishes:
    """The first stands still before its merge; the second has had time to end."""

    harness: RunHarness
    workflows: tuple[str, str]
    first: Running
    second: Running
    process: FaultInjector
    stop_first: asyncio.Future[BodyStopped]


async def two_finishes(root: Path, concurrency: AsyncioConcurrency, target: str) -> TwoFinishes:
    """Finish a run of main and a run of this target in one process."""
    harness = await waiting(root)
    first = harness.workflow
    if target != "main":
        harness.repository.branch(target, harness.input)
    await harness.start_run(target)
    while await harness.waits() != FINISH:
        worker, task_type = harness.worker(), await harness.waits()
        assert task_type is not None
        assert (await harness.drive(worker.work(task_type))).error is None
    worker = harness.worker([zombie(before="merge")])
    worker = replace(worker, harness=replace(worker.harness, concurrency=concurrency))
    order: asyncio.Future[BodyStopped] = asyncio.get_running_loop().create_future()
    stoppable = replace(worker, harness=replace(worker.harness, stop_order=WaitingOrder(order)))
    process = harness.workers[-1]
    running = await _begin(stoppable)
    while process.waits_for is None:  # noqa: ASYNC110 - driven by hand
        await asyncio.sleep(0)
    other = await _begin(worker)
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)
    return TwoFinishes(harness, (first, harness.workflow), running, other, process, order)


async def _begin(worker: AttemptWorker) -> Running:
    record = await worker.poll(FINISH)
    assert record is not None
    return asyncio.ensure_future(worker.run(record))


async def test_the_second_run_of_a_target_waits_for_the_look_and_the_merge_of_the_first(
    tmp_path: Path, concurrency: AsyncioConcurrency
) -> None:
    """Else it would publish between these two, and the first would be refused."""
    two = await two_finishes(tmp_path, concurrency, "main")
    assert not two.second.done()
    assert two.harness.runs_on_target() == []

    two.process.release()
    assert (await two.harness.drive(two.first)).error is None
    refused(await two.harness.drive(two.second), "PRG-N004")
    (published,) = two.harness.runs_on_target()
    assert published.metadata[WORKFLOW_ID] == two.workflows[0]


async def test_a_run_of_another_target_does_not_wait(
    tmp_path: Path, concurrency: AsyncioConcurrency
) -> None:
    two = await two_finishes(tmp_path, concurrency, "dev")
    assert two.second.done()
    (published,) = (each for each in two.harness.repository.history("dev") if RUN in each.metadata)
    assert published.metadata[WORKFLOW_ID] == two.workflows[1]
    assert two.harness.runs_on_target() == []

    two.process.release()
    assert (await two.harness.drive(two.first)).error is None
    (published,) = two.harness.runs_on_target()
    assert published.metadata[WORKFLOW_ID] == two.workflows[0]


async def test_a_finish_that_is_stopped_gives_its_turn_to_the_next(
    tmp_path: Path, concurrency: AsyncioConcurrency
) -> None:
    two = await two_finishes(tmp_path, concurrency, "main")
    two.stop_first.set_result(BodyStopped("worker draining: a deploy", Cause.DRAIN))
    assert (await two.harness.drive(two.first)).status == "HANDED_BACK"
    assert (await two.harness.drive(two.second)).error is None
    (published,) = two.harness.runs_on_target()
    assert published.metadata[WORKFLOW_ID] == two.workflows[1]
