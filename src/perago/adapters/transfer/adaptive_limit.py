"""How many requests may be under way: more while it pays, half when the server asks for less.

Told what happened and when; sends nothing and reads no clock.
"""

from typing import final

START = 32
ENOUGH = 16  # below this only a server that asks for less brings it
LEAST = 4
_WINDOW_REQUESTS_MIN = 16
_GAIN = 1.08  # a window that is this much faster than the best so far earned more requests
_GAIN_SHARE = 0.3  # of what a climb added, or it is taken back: more threads cost time themselves
_LOSS = 0.75  # one this much slower, with longer answers, gives some back
_AGEING = 0.99  # what was best once is forgotten slowly: networks change


@final
class AdaptiveLimit:
    """Climbs by throughput, window by window, and steps back when a climb did not pay.

    The caller serialises the calls.
    """

    def __init__(self, most: int, *, start: int = START) -> None:
        self._most = max(LEAST, most)
        self._limit = min(start, self._most)
        self._best_rate = 0.0
        self._best_wait = float("inf")
        self._gain = _GAIN
        self._tried_from: int | None = None
        self._starts_fast = True
        self._since: float | None = None
        self._requests = 0
        self._work = 0.0
        self._waited = 0.0
        self._was_throttled = False

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        return self._limit

    def answered(self, *, work: float, waited: float, now: float) -> None:
        """One request ended well: how much it moved, how long it took, and when that was."""
        if self._since is None:
            self._since = now - waited
        self._requests += 1
        self._work += work
        self._waited += waited
        if self._requests >= max(_WINDOW_REQUESTS_MIN, 2 * self._limit):
            self._judge(now)

    def throttled(self) -> None:
        """The server asked for less: half, once for all answers of one window."""
        if not self._was_throttled:
            self._limit = max(LEAST, self._limit // 2)
            self._best_rate = 0.0
            self._tried_from = None
            self._starts_fast = False
            self._begin_window(None)
            self._was_throttled = True

    def _judge(self, now: float) -> None:
        assert self._since is not None
        rate = self._work / max(now - self._since, 1e-9)
        wait = self._waited / self._requests
        self._best_wait = min(self._best_wait, wait)
        tried_from, self._tried_from = self._tried_from, None
        if rate > self._best_rate * self._gain:
            self._best_rate = rate
            self._grow()
        elif tried_from is not None:
            self._limit = tried_from
            self._starts_fast = False
        elif (
            # Slow answers alone may be this host's own doing.
            self._limit > ENOUGH and rate < self._best_rate * _LOSS and wait > self._best_wait * 2
        ):
            self._limit -= max(1, (self._limit - ENOUGH) // 2)
        if self._tried_from is None:
            self._gain = _GAIN
        self._best_rate *= _AGEING
        self._begin_window(now)

    def _grow(self) -> None:
        """Try more; the next window has to show a share of what was added."""
        self._tried_from = self._limit
        step = self._limit if self._starts_fast else max(1, self._limit // 4)
        self._limit = min(self._most, self._limit + step)
        self._gain = 1 + _GAIN_SHARE * (self._limit / self._tried_from - 1)

    def _begin_window(self, now: float | None) -> None:
        self._since = now
        self._requests = 0
        self._work = 0.0
        self._waited = 0.0
        self._was_throttled = False
