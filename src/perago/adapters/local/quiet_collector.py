"""Python's cyclic collector, held back while very many values are made that stay.

It walks all of them again and again and finds nothing: a fifth of the time of a large warm start.
Held during work on the processor, never while somebody waits for nothing but a network.
"""

import gc
from threading import Lock
from types import TracebackType
from typing import final


@final
class QuietCollector:
    """Blocks in which the collector rests; those of several threads may overlap."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._holders += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._was_enabled:
                gc.enable()


# The collector is the process's, and so is this.
QUIET_COLLECTOR = QuietCollector()
