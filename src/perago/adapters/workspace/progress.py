"""How far a transfer has come, reported about once a second.

Counts objects and bytes from any thread. Decides only when to report.
"""

from dataclasses import dataclass
from threading import Lock
from typing import final

from perago.ports.system import Clock
from perago.ports.workspace import Phase, Progress

# An operator who watches the log sees that a transfer moves, and a long one fills no log.
REPORT_EACH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TransferListener:
    """Where transfers are reported, and the clock that says when."""

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
        self._started = self._reported = 0.0 if listener is None else listener.clock.monotonic()

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
            # A transfer that was reported once is also reported when it has ended.
            ended = self._bytes >= self._size and self._reported > self._started
            if now - self._reported < REPORT_EACH_SECONDS and not ended:
                return
            self._reported = now
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
