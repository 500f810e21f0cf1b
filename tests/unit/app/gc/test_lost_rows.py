"""Rows of dead workers that no marker names, and rows whose poll nobody heard, are handed back."""

import asyncio
import logging
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import pytest
from tests.attempt_workers import AttemptWorker
from tests.redelivery import release
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.adapters.filesystem.locks import LOCK_NAME, NAMES_MAX, RootLock
from perago.app.gc.local_pass import AGAIN, LAST_POLL_SECONDS, LEFT, LostRows
from perago.domain.attempt import AttemptRecord, AttemptStatus
from perago.domain.hand_back import HAND_BACKS_MAX
from perago.domain.policy import PolicySetting
from perago.ports.errors import MissingError
from perago.testing.faults import Fault, lose_answer, refuse, unavailable

IN_PROGRESS, SCHEDULED = AttemptStatus.IN_PROGRESS, AttemptStatus.SCHEDULED
FAILED = AttemptStatus.FAILED
NOTHING: Container[tuple[str, int]] = ()


@final
@dataclass
class Names:
    """Workers of a root, as `WorkerNames` wants them."""

    former: Sequence[str] = ("worker-1",)
    added: list[str] = field(default_factory=list[str])

    def add(self, worker_id: str) -> None:
        """Remember it."""
        self.added.append(worker_id)


NOBODY = Names(former=())


async def polled(harness: AttemptHarness, *faults: Fault) -> tuple[AttemptWorker, AttemptRecord]:
    """A worker that was given the row, and its row."""
    await harness.start()
    worker = harness.worker(faults)
    record = await worker.poll(TASK)
    assert record is not None
    return worker, record


def rows_of(
    harness: AttemptHarness, names: Names = NOBODY, *, worker: AttemptWorker | None = None
) -> LostRows:
    """What the next worker looks with, or this one."""
    looking = harness.worker() if worker is None else worker
    return LostRows(looking.harness, {TASK: harness.task}, looking.settings, names)


async def row(harness: AttemptHarness) -> AttemptRecord:
    """The one row."""
    (found,) = (await harness.read()).attempts
    return found


def names_of(harness: AttemptHarness) -> list[str]:
    """Every worker that there was."""
    return [f"worker-{number + 1}" for number in range(len(harness.workers))]


async def until_waiting() -> None:
    """Let everything go on that does not wait for the clock."""
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.fixture
def harness(tmp_path: Path) -> AttemptHarness:
    """One workflow of one task."""
    return AttemptHarness(tmp_path, PolicySetting.SETTLED)


async def test_the_row_of_a_worker_that_died_before_a_directory_is_handed_back(
    harness: AttemptHarness,
) -> None:
    await polled(harness)
    names = Names()
    await rows_of(harness, names).at_start()
    found = await row(harness)
    assert (found.snapshot.status, found.snapshot.retry_count) == (SCHEDULED, 0)
    assert found.reason == "handed back (1 of 5): worker worker-1 died"
    assert await harness.operator.queue.read_log(found.snapshot.task_id) == (found.reason,)
    assert names.added == ["worker-2"], "its successor will look for it"


async def test_the_row_of_a_worker_of_another_root_is_left_alone(harness: AttemptHarness) -> None:
    await polled(harness)
    assert await rows_of(harness, Names(["worker-9"])).of_dead_workers()
    assert (await row(harness)).snapshot.status is IN_PROGRESS


async def test_a_row_that_another_worker_has_now_is_left_alone(harness: AttemptHarness) -> None:
    await polled(harness)
    await release(harness.operator.queue, await row(harness))
    assert await harness.worker().poll(TASK) is not None
    assert await rows_of(harness, Names()).of_dead_workers()
    found = (await row(harness)).snapshot
    assert (found.status, found.worker_id) == (IN_PROGRESS, "worker-2")


async def test_a_row_whose_workers_die_again_and_again_fails_with_all_reasons(
    harness: AttemptHarness,
) -> None:
    await polled(harness)
    for _ in range(HAND_BACKS_MAX):
        await rows_of(harness, Names(names_of(harness))).of_dead_workers()
        assert (await row(harness)).snapshot.status is SCHEDULED
        assert await harness.worker().poll(TASK) is not None
    await rows_of(harness, Names(names_of(harness))).of_dead_workers()
    failed, retry = (await harness.read()).attempts
    assert (failed.snapshot.status, retry.snapshot.status) == (FAILED, SCHEDULED)
    assert "handed back 5 times in a row without an end: " in str(failed.reason)


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_under_the_documents_policies_a_late_merge_is_waited_for(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy)
    await polled(harness)
    assert await rows_of(harness, Names()).of_dead_workers()
    assert (await row(harness)).snapshot.status is IN_PROGRESS


@pytest.mark.parametrize("policy", list(PolicySetting))
async def test_a_row_whose_poll_was_not_heard_is_handed_back(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = AttemptHarness(tmp_path, policy)
    worker, _ = await polled(harness)
    assert await rows_of(harness, worker=worker).unheard(TASK, NOTHING)
    found = await row(harness)
    assert found.snapshot.status is SCHEDULED
    expected = "handed back (1 of 5): the answer to a poll of worker worker-1 was lost"
    assert found.reason == expected


async def test_a_row_that_this_worker_has_taken_is_its_own(harness: AttemptHarness) -> None:
    worker, record = await polled(harness)
    taken = {(record.snapshot.task_id, record.snapshot.poll_count)}
    assert await rows_of(harness, worker=worker).unheard(TASK, taken)
    assert (await row(harness)).snapshot.status is IN_PROGRESS
    # It was handed back by a drain and polled again, unheard.
    await release(harness.operator.queue, record)
    assert await worker.poll(TASK) is not None
    assert await rows_of(harness, worker=worker).unheard(TASK, taken)
    assert (await row(harness)).snapshot.status is SCHEDULED


@pytest.mark.parametrize(
    ("fault", "is_asked_again"),
    [
        (unavailable("queue.in_progress"), True),
        (unavailable("queue.hand_back"), True),
        (lose_answer("queue.hand_back"), True),
        (refuse("queue.in_progress", MissingError("no such path")), False),
    ],
    ids=["no search", "no hand back", "its answer is lost", "no index"],
)
async def test_a_conductor_that_is_away_is_asked_again(
    harness: AttemptHarness,
    fault: Fault,
    is_asked_again: bool,  # noqa: FBT001 - a case
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "perago.worker")
    await polled(harness)
    looking = harness.worker([fault])
    rows = rows_of(harness, Names(), worker=looking)
    assert await rows.of_dead_workers() is not is_asked_again
    assert [each.message for each in caplog.records] == [AGAIN if is_asked_again else LEFT]
    assert {each.levelname for each in caplog.records} == {"INFO"}
    if is_asked_again:
        assert await rows.of_dead_workers()
        assert (await row(harness)).snapshot.status is SCHEDULED


async def test_what_the_last_poll_of_a_dead_worker_brings_is_handed_back_as_well(
    harness: AttemptHarness,
) -> None:
    await harness.start()
    dead, looking = harness.worker(), harness.worker([unavailable("queue.in_progress", nth=2)])
    rows = rows_of(harness, Names(), worker=looking)
    await rows.at_start()
    assert await dead.poll(TASK) is not None, "Conductor goes on with a poll that was open"
    later = asyncio.create_task(rows.after_the_last_poll())
    for _ in range(3):  # Conductor is away for the first of these looks
        await until_waiting()
        assert not later.done()
        assert (await row(harness)).snapshot.status is IN_PROGRESS
        harness.clock.advance(LAST_POLL_SECONDS / 2 + 0.1)
    await until_waiting()
    harness.clock.advance(LAST_POLL_SECONDS)
    await asyncio.wait_for(later, 20)
    assert (await row(harness)).snapshot.status is SCHEDULED


def test_a_root_knows_the_workers_that_polled_with_it(tmp_path: Path) -> None:
    with RootLock(tmp_path) as first:
        assert first.former == ()
        first.add("worker-1")
        assert first.former == (), "it is not its own predecessor"
    with RootLock(tmp_path) as second:
        assert second.former == ("worker-1",)
    with RootLock(tmp_path) as third:
        assert third.former == ("worker-1",), "a worker that never polled has no rows"
        for number in range(NAMES_MAX):
            third.add(f"later-{number}")
    with RootLock(tmp_path) as last:
        assert last.former == tuple(f"later-{number}" for number in range(NAMES_MAX))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"supervisor_pid": 7}', b'{"worker_ids": 7}', b"\xff"]
)
def test_a_lock_of_0_6_1_or_without_text_names_no_worker(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)
    with RootLock(tmp_path) as lock:
        assert lock.former == ()
