"""Planned faults: what happens, what the worker sees, and what a dead worker still does."""

import pytest
from tests.unit.adapters.memory.memory_worker import MemoryWorker, run_by_hand

from perago.adapters.memory.installations import MAIN
from perago.adapters.memory.worker_handle import (
    ANY,
    Answer,
    CrashAfter,
    CrashBefore,
    Fault,
    Hold,
    LoseAnswer,
    LoseRequest,
    Meanwhile,
    Pause,
    Refuse,
    When,
    WorkerDied,
)
from perago.domain.logical_execution import TagName
from perago.domain.outcome import Merged, NoAnswer, TooManyTries
from perago.ports.errors import (
    AccessDeniedError,
    OutcomeUnknownError,
    TagExistsError,
    UnavailableError,
)

TAG = TagName("decision")


async def create_tag(worker: MemoryWorker) -> None:
    await worker.tags.create(worker.repository.id, TAG, worker.staged)


@pytest.mark.parametrize(
    ("fault", "seen", "happened"),
    [
        (CrashBefore("tags.create"), WorkerDied, False),
        (CrashAfter("tags.create"), WorkerDied, True),
        (LoseRequest("tags.create"), OutcomeUnknownError, False),
        (LoseAnswer("tags.create"), OutcomeUnknownError, True),
        (Hold("tags.create"), OutcomeUnknownError, False),
        (Refuse("tags.create", AccessDeniedError("no")), AccessDeniedError, False),
        (CrashAfter(ANY), WorkerDied, True),
    ],
    ids=[
        "crash before",
        "crash after",
        "lost request",
        "lost answer",
        "held",
        "refused",
        "any operation",
    ],
)
async def test_a_fault_decides_what_happened_and_what_is_seen(
    fault: Fault, seen: type[BaseException], *, happened: bool
) -> None:
    worker = MemoryWorker()
    worker.handle.plan(fault)
    with pytest.raises(seen):
        await create_tag(worker)
    assert (TAG in worker.repository.tags()) is happened


@pytest.mark.parametrize("fault", [LoseRequest, LoseAnswer, Hold])
async def test_a_read_without_answer_is_unavailable(
    fault: type[LoseRequest | LoseAnswer | Hold],
) -> None:
    worker = MemoryWorker()
    worker.handle.plan(fault("tags.read"))
    with pytest.raises(UnavailableError):
        await worker.tags.read(worker.repository.id, TAG)
    assert await worker.tags.read(worker.repository.id, TAG) is None


@pytest.mark.parametrize(("fault", "lands"), [(LoseRequest, False), (LoseAnswer, True)])
async def test_a_merge_without_answer_is_a_value(
    fault: type[LoseRequest | LoseAnswer], *, lands: bool
) -> None:
    worker = MemoryWorker()
    worker.handle.plan(fault("branches.merge"))
    assert isinstance(await worker.branches.merge(worker.request()), NoAnswer)
    assert (worker.head != worker.input_ref) is lands


async def test_a_held_request_lands_when_released_even_after_its_sender_died() -> None:
    worker = MemoryWorker()
    worker.handle.plan(Hold("branches.merge"))
    assert isinstance(await worker.branches.merge(worker.request()), NoAnswer)
    worker.handle.kill()
    human = worker.repository.commit({"human": b"human"})
    assert worker.head == human
    landed = worker.handle.release()
    assert isinstance(landed, Merged)
    assert worker.repository.head().parents == (human,)


async def test_a_held_request_may_be_refused_when_it_lands() -> None:
    worker = MemoryWorker()
    worker.handle.plan(Hold("tags.create"))
    with pytest.raises(OutcomeUnknownError):
        await create_tag(worker)
    worker.repository.tag(TAG, worker.input_ref)
    assert isinstance(worker.handle.release(), TagExistsError)
    assert worker.repository.tags()[TAG] == worker.input_ref


async def test_a_dead_worker_tidies_nothing_up() -> None:
    worker = MemoryWorker()
    worker.handle.plan(CrashAfter("tags.create"))

    async def attempt() -> None:
        try:
            await create_tag(worker)
        finally:
            await worker.branches.delete(worker.repository.id, worker.repository.branch("new"))

    with pytest.raises(WorkerDied):
        await attempt()
    assert "new" in worker.repository.branch_names()


async def test_the_loss_of_a_refusal_hides_it() -> None:
    worker = MemoryWorker()
    worker.repository.tag(TAG, worker.input_ref)
    worker.handle.plan(LoseAnswer("tags.create"))
    with pytest.raises(OutcomeUnknownError):
        await create_tag(worker)


async def test_nth_counts_the_calls_of_one_operation() -> None:
    worker = MemoryWorker()
    await worker.tags.read(worker.repository.id, TAG)
    worker.handle.plan(LoseAnswer("tags.read", nth=2), LoseAnswer(ANY, nth=4))
    await worker.tags.read(worker.repository.id, TAG)
    with pytest.raises(UnavailableError):
        await worker.tags.read(worker.repository.id, TAG)
    await worker.branches.head(worker.repository.id, MAIN)
    with pytest.raises(UnavailableError):
        await worker.branches.head(worker.repository.id, MAIN)
    assert worker.handle.calls == {"tags.read": 3, "branches.head": 2, ANY: 5}
    assert worker.handle.requests == 5


@pytest.mark.parametrize("when", When)
async def test_somebody_else_acts_on_either_side_of_the_effect(when: When) -> None:
    worker = MemoryWorker()
    human = Meanwhile("branches.merge", when, lambda: worker.repository.commit({"human": b"human"}))
    worker.handle.plan(human)
    answer = await worker.branches.merge(worker.request())
    assert isinstance(answer, Merged)
    messages = [record.message for record in worker.repository.history()]
    expected = ["publish", "files"] if when is When.BEFORE_EFFECT else ["files", "publish"]
    assert messages[:2] == expected


@pytest.mark.parametrize(("when", "published"), [(When.BEFORE_EFFECT, 1), (When.AFTER_EFFECT, 2)])
def test_a_paused_worker_goes_on_where_it_stood(when: When, published: int) -> None:
    worker = MemoryWorker()
    worker.handle.plan(Pause("branches.merge", when))
    merging = worker.branches.merge(worker.request())
    for _ in range(5):
        merging.send(None)
    assert worker.handle.paused
    assert len(worker.repository.history()) == published + 1
    worker.handle.resume()
    assert isinstance(run_by_hand(merging), Merged)
    assert len(worker.repository.history()) == 3


def test_a_worker_killed_while_paused_has_no_more_effects() -> None:
    worker = MemoryWorker()
    worker.handle.plan(Pause("branches.merge", When.BEFORE_EFFECT))
    merging = worker.branches.merge(worker.request())
    merging.send(None)
    merging.send(None)
    worker.handle.kill()
    with pytest.raises(WorkerDied):
        merging.send(None)
    assert worker.head == worker.input_ref


async def test_a_planned_answer_replaces_the_effect() -> None:
    worker = MemoryWorker()
    worker.handle.plan(Answer("branches.merge", TooManyTries("busy")))
    assert await worker.branches.merge(worker.request()) == TooManyTries("busy")
    assert worker.head == worker.input_ref
