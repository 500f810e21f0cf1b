"""How far a transfer has come, told to the listener about once a second.

Counts objects and bytes from any thread. Decides only when to speak.
"""

from dataclasses import dataclass
from threading import Lock
from typing import final

from perago.ports.clock import Clock
from perago.ports.progress import Phase, Progress

TELL_EACH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TransferListener:
    """Who hears of transfers, and the clock that says when."""

    progress: Progress
    clock: Clock


@final
class TransferMeter:
    """One transfer of known size under way; without a listener it only counts."""

    def __init__(
        self,
        listener: TransferListener | None,
        direction: str,
        *,
        files: int,
        size: int,
        cached: int = 0,
        skipped: int = 0,
    ) -> None:
        self._listener = listener
        self._fixed = {
            "direction": direction,
            "files_total": files,
            "bytes_total": size,
            "cached": cached,
            "skipped": skipped,
        }
        self._size = size
        self._lock = Lock()
        self._moves = self._files = self._bytes = 0
        self._started = self._told = 0.0 if listener is None else listener.clock.monotonic()

    def moved(self, size: int, files: int) -> None:
        """Count one object, or a part of one: `files` is 1 with its last."""
        listener = self._listener
        if listener is None:
            return
        with self._lock:
            self._moves += 1
            self._files += files
            self._bytes += size
            now = listener.clock.monotonic()
            # Whoever has heard of it hears of its end as well.
            ended = self._bytes >= self._size and self._told > self._started
            if now - self._told < TELL_EACH_SECONDS and not ended:
                return
            self._told = now
            facts = self._facts(now - self._started)
        listener.progress.phase(Phase.TRANSFERRING, facts)

    def _facts(self, seconds: float) -> dict[str, object]:
        rate = self._bytes / seconds
        left = max(0, self._size - self._bytes)
        return {
            **self._fixed,
            "files": self._files,
            "requests": self._moves,
            "bytes": self._bytes,
            "bytes_per_second": round(rate),
            "eta_seconds": round(left / rate, 1) if rate else None,
        }
