"""Waiting for whichever of several things comes first."""

import asyncio
from typing import Any, TypeAlias

Waited: TypeAlias = "asyncio.Future[Any]"


async def first_of(*futures: Waited, seconds_max: float | None = None) -> None:
    """Return when one of them is done, or the time is over; nothing is cancelled."""
    await asyncio.wait(futures, timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
