"""Waiting for whichever of several things comes first."""

import asyncio
from typing import Any, TypeAlias

Waited: TypeAlias = "asyncio.Future[Any]"


async def first_of(*futures: Waited, seconds_max: float | None = None) -> None:
    """Return when one of them is done, or the time is over; nothing is cancelled."""
    if any(future.done() for future in futures):
        return
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    def wake(_: object) -> None:
        if not first.done():
            first.set_result(None)

    late = None if seconds_max is None else loop.call_later(seconds_max, wake, None)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await first
    finally:
        for future in futures:
            future.remove_done_callback(wake)
        if late is not None:
            late.cancel()
