"""The loop in a thread of its own: what becomes of work whose caller has gone."""

import asyncio
import threading

import pytest

from perago.adapters.http import LoopThread, NotSentError


async def test_work_ends_with_its_caller_and_before_the_caller_goes_on() -> None:
    thread = LoopThread("test")
    began, ended = threading.Event(), threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def nothing() -> None:
        """There are no connections to close."""

    waiting = asyncio.ensure_future(thread.run(work()))
    assert await asyncio.to_thread(began.wait, 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
    await asyncio.to_thread(thread.close, nothing())


async def test_work_that_is_handed_in_while_the_loop_ends_is_refused() -> None:
    thread = LoopThread("test")
    closing, handed_in = threading.Event(), threading.Event()

    async def last() -> None:
        closing.set()
        await asyncio.to_thread(handed_in.wait)

    closed = asyncio.ensure_future(asyncio.to_thread(thread.close, last()))
    assert await asyncio.to_thread(closing.wait, 10)
    with pytest.raises(NotSentError, match="closed meanwhile"):
        await asyncio.wait_for(thread.run(asyncio.sleep(60)), timeout=1.0)
    handed_in.set()
    await closed
