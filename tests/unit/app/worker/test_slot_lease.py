"""The slot of one attempt: taken by its poll, lent while it waits, given back once."""

import asyncio

import pytest

from perago.app.worker.attempts import SlotLease
from perago.app.worker.bodies import Order, SlotBudget
from perago.ports.task_body import BodyStopped, NoLease


def lease_of_two_slots() -> tuple[SlotBudget, SlotLease]:
    budget = SlotBudget(lambda: 2)
    assert budget.take_free(1) == 1
    return budget, SlotLease(NoLease(), budget)


def order_to_stop() -> Order:
    return asyncio.get_running_loop().create_future()


async def test_the_end_gives_the_slot_back_once() -> None:
    budget, slot = lease_of_two_slots()
    await slot.end()
    await slot.end()
    assert budget.taken == 0


async def test_a_slot_that_is_lent_when_the_attempt_ends_is_not_given_back_again() -> None:
    budget, slot = lease_of_two_slots()
    slot.lend()
    await slot.end()
    assert budget.taken == 0


async def test_a_wait_for_a_slot_that_is_cancelled_has_none_to_give_back() -> None:
    budget, slot = lease_of_two_slots()
    slot.lend()
    assert budget.take_free(2) == 2
    waiting = asyncio.create_task(slot.take_back(order_to_stop()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await slot.end()
    assert (budget.taken, budget.waiting) == (2, 0)


async def test_an_attempt_that_is_told_to_stop_waits_for_no_slot() -> None:
    budget, slot = lease_of_two_slots()
    slot.lend()
    assert budget.take_free(2) == 2
    order = order_to_stop()
    waiting = asyncio.create_task(slot.take_back(order))
    await asyncio.sleep(0)
    order.set_result(BodyStopped("the attempt is lost"))
    await asyncio.wait_for(waiting, 5)
    await slot.end()
    assert (budget.taken, budget.waiting) == (2, 0)


async def test_a_slot_that_was_taken_back_is_given_back_at_the_end() -> None:
    budget, slot = lease_of_two_slots()
    slot.lend()
    await slot.take_back(order_to_stop())
    assert budget.taken == 1
    await slot.end()
    assert budget.taken == 0
