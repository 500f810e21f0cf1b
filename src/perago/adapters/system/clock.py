"""The machine's clock."""

import asyncio
import time
from datetime import UTC, datetime
from typing import final

from perago.ports.system import Clock


@final
class SystemClock(Clock):
    """Wall time in UTC and the monotonic clock of this process."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        # The loop's timer may fire a clock tick early; a caller counts on the whole time.
        while (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 - only time ends it
            await asyncio.sleep(left)
