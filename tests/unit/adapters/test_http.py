"""The loop in a thread of its own: what becomes of work whose caller has gone."""

import asyncio
import threading

import pytest

from perago.adapters.http import LoopThread


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
