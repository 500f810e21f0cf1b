"""Cancelled blocking work is told so, and waited for as long as it is worth it."""

import asyncio
from threading import Event

import pytest

from perago.adapters.system import ABANDONED_SECONDS_MAX, AsyncioConcurrency

LONG_SECONDS = 30.0


async def cancelled_in_the_middle(work: "asyncio.Task[bool]", begun: Event) -> None:
    assert await asyncio.to_thread(begun.wait, LONG_SECONDS)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_cancelled_work_hears_of_it_and_has_ended_when_the_caller_goes_on() -> None:
    concurrency, begun, told, ended = AsyncioConcurrency(), Event(), Event(), Event()

    def wait() -> bool:
        begun.set()
        is_told = told.wait(LONG_SECONDS)
        ended.set()
        return is_told

    work = asyncio.create_task(concurrency.blocking(wait, abandon=told.set))
    await cancelled_in_the_middle(work, begun)
    assert ended.is_set()
    concurrency.close()


async def test_work_that_hears_nothing_is_left_after_a_moment() -> None:
    concurrency, begun, end = AsyncioConcurrency(), Event(), Event()

    def wait() -> bool:
        begun.set()
        return end.wait(LONG_SECONDS)

    work = asyncio.create_task(concurrency.blocking(wait))
    began = asyncio.get_running_loop().time()
    await cancelled_in_the_middle(work, begun)
    assert asyncio.get_running_loop().time() - began < ABANDONED_SECONDS_MAX + LONG_SECONDS / 2
    assert not end.is_set()
    end.set()
    concurrency.close()


async def test_who_cancels_twice_waits_no_moment() -> None:
    concurrency, begun, end = AsyncioConcurrency(), Event(), Event()

    def wait() -> bool:
        begun.set()
        return end.wait(LONG_SECONDS)

    work = asyncio.create_task(concurrency.blocking(wait))
    assert await asyncio.to_thread(begun.wait, LONG_SECONDS)
    work.cancel()
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not end.is_set()
    end.set()
    concurrency.close()


async def test_each_asks_as_many_side_by_side_as_it_may() -> None:
    concurrency, waiting = AsyncioConcurrency(), asyncio.Barrier(4)

    async def wait_for_the_others(_item: int) -> None:
        async with asyncio.timeout(LONG_SECONDS):
            await waiting.wait()

    await concurrency.each(range(8), wait_for_the_others, at_most=4)
    concurrency.close()


async def test_each_that_is_cancelled_ends_its_questions_first() -> None:
    concurrency, asked, ended = AsyncioConcurrency(), asyncio.Barrier(4), list[int]()

    async def wait_for_ever(item: int) -> None:
        try:
            await asked.wait()
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    each = asyncio.create_task(concurrency.each(range(8), wait_for_ever, at_most=3))
    await asked.wait()
    each.cancel()
    with pytest.raises(asyncio.CancelledError):
        await each
    assert sorted(ended) == [0, 1, 2]
    concurrency.close()
