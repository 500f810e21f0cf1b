"""The registry of what needs no server: clocks, identities, concurrency, listeners, directories.

One dictionary per suite: name -> a function that opens the adapter.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import time_ns

from tests.recordings import RecordingProgress

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.system import (
    SeededIdentities,
    SequentialConcurrency,
    VirtualClock,
)
from perago.adapters.observability.progress import ProgressLog, TransferBar
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.workspace import AttemptDirectories, Progress

CLOCKS: Mapping[str, Callable[[], Clock]] = {"memory": VirtualClock, "system": SystemClock}


def wall_ms() -> int:
    """This machine's clock."""
    return time_ns() // 1_000_000


IDENTITIES: Mapping[str, Callable[[], Identities]] = {
    "memory": lambda: SeededIdentities(7, now_ms=wall_ms),
    "system": SystemIdentities,
}

CONCURRENCY: Mapping[str, Callable[[], Concurrency]] = {
    "memory": SequentialConcurrency,
    "asyncio": AsyncioConcurrency,
}

PROGRESS: Mapping[str, Callable[[], Progress]] = {
    "memory": RecordingProgress,
    "log": ProgressLog,
    "bar": TransferBar,
}


def _local(root: Path) -> AttemptDirectories:
    return LocalAttemptDirectories(root, SystemClock(), SequentialConcurrency())


def _threaded(root: Path) -> AttemptDirectories:
    return LocalAttemptDirectories(root, SystemClock(), AsyncioConcurrency())


DIRECTORIES: Mapping[str, Callable[[Path], AttemptDirectories]] = {
    "local": _local,
    "local in threads": _threaded,
}
