"""Time as the application sees it."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A clock.

    Laws (tests/contract/test_clock.py has one test for each, by name):

    K1 monotonic_never_goes_back: two readings are in order.
    K2 sleep_takes_that_long: at least the asked seconds pass on the monotonic reading.
    K3 now_is_utc: the wall time has the UTC zone.
    """

    def now(self) -> datetime:
        """The wall time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...
