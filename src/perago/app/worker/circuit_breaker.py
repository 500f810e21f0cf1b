"""Not asking a service that fails: pauses that double, with jitter, until it works again.

Counts failures and tells pauses; who fails and who waits is not known here.
"""

from collections.abc import Callable
from enum import Enum
from typing import final

FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 60.0


class Circuit(Enum):
    """What is believed of a service.

    state        means                                          leaves it by
    CLOSED       it works                                       `failed`
    OPEN         an operation failed; leave it alone            `looked`, when the pause is over
    HALF_OPEN    it answers a cheap question; try one operation `tried`, `failed`, `succeeded`
    TRIAL        that operation is under way                    `failed`, `succeeded`,
                                                                `undecided`, `looked`
    """

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"
    TRIAL = "trial"


@final
class CircuitBreaker:
    """Opened by a failed operation, and closed only by an operation that succeeds.

    An answer to a health question does not close it, because the common outage is one where the
    server answers and its store is down: the pauses then began again with the shortest one at
    every turn, and a worker polled and burnt attempts twice a second for as long as it lasted.
    """

    def __init__(
        self, name: str, *, now: Callable[[], float], fraction: Callable[[], float]
    ) -> None:
        self.name = name
        self.state = Circuit.CLOSED
        self.last_error = ""
        self._now = now
        self._fraction = fraction
        self._failures = 0
        self._until = 0.0

    @property
    def closed(self) -> bool:
        """Whether the service is believed to work."""
        return self.state is Circuit.CLOSED

    @property
    def seconds_left(self) -> float:
        """How long the service, or the outcome of a trial, is to be waited for."""
        return max(self._until - self._now(), 0.0)

    def failed(self, error: str) -> float:
        """Count one failure; those of operations that began before the pause count once."""
        self.last_error = error
        if self.state is Circuit.OPEN and self.seconds_left > 0:
            return self.seconds_left
        self._failures += 1
        self.state = Circuit.OPEN
        return self._begin_pause()

    def looked(self) -> None:
        """The service answered a question that costs it nothing."""
        if not self.closed:
            self.state = Circuit.HALF_OPEN
            self._until = 0.0

    def tried(self) -> None:
        """An operation began; others wait for its outcome, but not longer than a pause."""
        if self.state is Circuit.HALF_OPEN:
            self.state = Circuit.TRIAL
            self._begin_pause()

    def undecided(self) -> None:
        """The operation ended before it could tell: the next one is the trial."""
        if self.state is Circuit.TRIAL:
            self.looked()

    def succeeded(self) -> None:
        """An operation succeeded."""
        self.state = Circuit.CLOSED
        self._failures = 0
        self._until = 0.0

    def _begin_pause(self) -> float:
        longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (self._failures - 1), PAUSE_SECONDS_MAX)
        pause = longest * (1 + self._fraction()) / 2
        self._until = self._now() + pause
        return pause
