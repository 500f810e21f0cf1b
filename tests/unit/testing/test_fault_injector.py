"""Planned faults: what happens, what the worker sees, and what a dead worker still does."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.adapters.memory.memory_worker import MemoryWorker

from perago.adapters.memory.repository_state import MAIN
from perago.domain.lakefs import BranchName, TagName
from perago.domain.outcome import Merged, NoAnswer, TooManyTries
from perago.ports.errors import (
    AccessDeniedError,
    OutcomeUnknownError,
    TagExistsError,
    UnavailableError,
)
from perago.ports.objects import ObjectUpload
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import (
    ANY_CALL,
    Fault,
    Meanwhile,
    Moment,
    Side,
    Until,
    Zombie,
    always,
    answer,
    arrive_late,
    crash,
    lose_answer,
    lose_request,
    refuse,
    unavailable,
)

TAG = TagName("decision")


async def create_tag(worker: MemoryWorker) -> None:
    await worker.tags.create(worker.repository.id, TAG, worker.staged)


@pytest.mark.parametrize(
    ("fault", "seen", "happened"),
    [
        (crash(before="tags.create"), ProcessDied, False),
        (crash(after="tags.create"), ProcessDied, True),
        (lose_request("tags.create"), OutcomeUnknownError, False),
        (lose_answer("tags.create"), OutcomeUnknownError, True),
        (arrive_late("tags.create"), OutcomeUnknownError, False),
        (refuse("tags.create", AccessDeniedError("no")), AccessDeniedError, False),
        (unavailable("tags.create"), UnavailableError, False),
        (crash(after=ANY_CALL), ProcessDied, True),
    ],
    ids=[
        "crash before",
        "crash after",
        "lost request",
        "lost answer",
        "late",
        "refused",
        "unavailable",
        "any operation",
    ],
)
async def test_a_fault_decides_what_happened_and_what_is_seen(
    fault: Fault, seen: type[BaseException], *, happened: bool
) -> None:
    worker = MemoryWorker()
    worker.injector.plan(fault)
    with pytest.raises(seen):
        await create_tag(worker)
    assert (TAG in worker.repository.tags()) is happened


@pytest.mark.parametrize(
    "fault",
    [lose_request("tags.read"), lose_answer("tags.read"), arrive_late("tags.read")],
    ids=str,
)
async def test_a_read_without_answer_is_unavailable(fault: Fault) -> None:
    worker = MemoryWorker()
    worker.injector.plan(fault)
    with pytest.raises(UnavailableError):
        await worker.tags.read(worker.repository.id, TAG)
    assert await worker.tags.read(worker.repository.id, TAG) is None


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [(lose_request("branches.merge"), False), (lose_answer("branches.merge"), True)],
    ids=str,
)
async def test_a_merge_without_answer_is_a_value(fault: Fault, *, arrives: bool) -> None:
    worker = MemoryWorker()
    worker.injector.plan(fault)
    assert isinstance(await worker.branches.merge(worker.request()), NoAnswer)
    assert (worker.head != worker.input_ref) is arrives


async def test_a_late_request_arrives_even_after_its_sender_died() -> None:
    worker = MemoryWorker()
    worker.injector.plan(arrive_late("branches.merge"))
    assert isinstance(await worker.branches.merge(worker.request()), NoAnswer)
    worker.injector.dead = True
    human = worker.repository.commit({"human": b"human"})
    assert worker.head == human
    arrived = await worker.injector.arrive_late()
    assert isinstance(arrived, Merged)
    assert worker.repository.head().parents == (human,)


async def test_a_late_upload_has_the_bytes_with_which_it_left(tmp_path: Path) -> None:
    worker, source = MemoryWorker(), tmp_path / "file"
    worker.repository.branch("staging-of-it")
    source.write_bytes(b"as it left")
    worker.injector.plan(arrive_late("objects.upload"))
    upload = ObjectUpload("late.txt", source)
    with pytest.raises(OutcomeUnknownError):
        await worker.objects.upload(worker.repository.id, BranchName("staging-of-it"), upload)
    source.unlink()
    await worker.injector.arrive_late()
    assert worker.repository.files("staging-of-it")["late.txt"] == b"as it left"


async def test_a_late_request_may_be_refused_when_it_arrives() -> None:
    worker = MemoryWorker()
    worker.injector.plan(arrive_late("tags.create"))
    with pytest.raises(OutcomeUnknownError):
        await create_tag(worker)
    worker.repository.tag(TAG, worker.input_ref)
    assert isinstance(await worker.injector.arrive_late(), TagExistsError)
    assert worker.repository.tags()[TAG] == worker.input_ref


async def test_a_dead_worker_tidies_nothing_up() -> None:
    worker = MemoryWorker()
    worker.injector.plan(crash(after="tags.create"))

    async def attempt() -> None:
        try:
            await create_tag(worker)
        finally:
            await worker.branches.delete(worker.repository.id, worker.repository.branch("new"))

    with pytest.raises(ProcessDied):
        await attempt()
    assert "new" in worker.repository.branch_names()


async def test_the_loss_of_a_refusal_hides_it() -> None:
    worker = MemoryWorker()
    worker.repository.tag(TAG, worker.input_ref)
    worker.injector.plan(lose_answer("tags.create"))
    with pytest.raises(OutcomeUnknownError):
        await create_tag(worker)


async def test_nth_counts_the_calls_of_one_operation() -> None:
    worker = MemoryWorker()
    await worker.tags.read(worker.repository.id, TAG)
    worker.injector.plan(lose_answer("tags.read", nth=2), lose_answer(ANY_CALL, nth=4))
    await worker.tags.read(worker.repository.id, TAG)
    with pytest.raises(UnavailableError):
        await worker.tags.read(worker.repository.id, TAG)
    await worker.branches.head(worker.repository.id, MAIN)
    with pytest.raises(UnavailableError):
        await worker.branches.head(worker.repository.id, MAIN)
    assert worker.injector.calls == {"tags.read": 3, "branches.head": 2}


async def test_a_fault_of_each_time_happens_from_its_number_on_and_is_never_used_up() -> None:
    worker = MemoryWorker()
    worker.injector.plan(always(unavailable("tags.read", nth=2)))
    await worker.tags.read(worker.repository.id, TAG)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await worker.tags.read(worker.repository.id, TAG)
    await worker.branches.head(worker.repository.id, MAIN)


@pytest.mark.parametrize("side", Side)
async def test_another_writer_acts_on_either_side_of_the_effect(side: Side) -> None:
    worker = MemoryWorker()
    moment = Moment("branches.merge", side)
    human = Meanwhile(moment, lambda: worker.repository.commit({"human": b"human"}))
    worker.injector.plan(human)
    answer = await worker.branches.merge(worker.request())
    assert isinstance(answer, Merged)
    messages = [record.message for record in worker.repository.history()]
    expected = ["publish", "files"] if side is Side.BEFORE else ["files", "publish"]
    assert messages[:2] == expected


@pytest.mark.parametrize(("side", "published"), [(Side.BEFORE, 1), (Side.AFTER, 2)])
async def test_a_zombie_goes_on_where_it_stood(side: Side, published: int) -> None:
    worker = MemoryWorker()
    worker.injector.plan(Zombie(Moment("branches.merge", side), Until.IDLE))
    merging = asyncio.ensure_future(worker.branches.merge(worker.request()))
    while worker.injector.waits_for is None:  # noqa: ASYNC110 - driven by hand
        await asyncio.sleep(0)
    assert len(worker.repository.history()) == published + 1
    worker.injector.release()
    assert isinstance(await merging, Merged)
    assert len(worker.repository.history()) == 3


async def test_a_worker_killed_while_it_stands_still_has_no_more_effects() -> None:
    worker = MemoryWorker()
    worker.injector.plan(Zombie(Moment("branches.merge", Side.BEFORE), Until.IDLE))
    merging = asyncio.ensure_future(worker.branches.merge(worker.request()))
    while worker.injector.waits_for is None:  # noqa: ASYNC110 - driven by hand
        await asyncio.sleep(0)
    worker.injector.dead = True
    worker.injector.release()
    with pytest.raises(ProcessDied):
        await merging
    assert worker.head == worker.input_ref


async def test_a_planned_answer_replaces_the_effect() -> None:
    worker = MemoryWorker()
    worker.injector.plan(answer("branches.merge", TooManyTries("busy")))
    assert await worker.branches.merge(worker.request()) == TooManyTries("busy")
    assert worker.head == worker.input_ref
