"""The one learned limit of a process, shared by everything that sends requests side by side."""

from threading import Lock
from typing import final

from perago.adapters.transfer.adaptive_limit import AdaptiveLimit


@final
class Pace:
    """An adaptive limit that any thread may tell of answers."""

    def __init__(self, most: int) -> None:
        self._limit = AdaptiveLimit(most)
        self._lock = Lock()

    @property
    def limit(self) -> int:
        """Requests, or connections, that may be under way now."""
        return self._limit.limit

    def answered(self, *, work: float, waited: float, now: float) -> None:
        """One request ended well."""
        with self._lock:
            self._limit.answered(work=work, waited=waited, now=now)

    def throttled(self) -> None:
        """The server asked for less."""
        with self._lock:
            self._limit.throttled()
