"""Not asking a service that fails: pauses that double, with jitter, until it answers again.

Counts failures and tells pauses; who fails and who waits is not known here.
"""

from collections.abc import Callable
from typing import final

FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 60.0


@final
class CircuitBreaker:
    """Open after a failure, half open when its pause is over, closed by a success."""

    def __init__(
        self, name: str, *, now: Callable[[], float], fraction: Callable[[], float]
    ) -> None:
        self.name = name
        self._now = now
        self._fraction = fraction
        self._failures = 0
        self._until = 0.0
        self.last_error = ""

    @property
    def closed(self) -> bool:
        """Whether the service is believed to answer."""
        return self._failures == 0

    @property
    def seconds_left(self) -> float:
        """How long the service is to be left alone."""
        return max(self._until - self._now(), 0.0)

    def failed(self, error: str) -> float:
        """Count one failure; failures of requests that left before the pause count once."""
        self.last_error = error
        if self._failures and self.seconds_left > 0:
            return self.seconds_left
        longest = min(FIRST_PAUSE_SECONDS * 2.0**self._failures, PAUSE_SECONDS_MAX)
        self._failures += 1
        pause = longest * (1 + self._fraction()) / 2
        self._until = self._now() + pause
        return pause

    def succeeded(self) -> None:
        """The service answered."""
        self._failures = 0
        self._until = 0.0
