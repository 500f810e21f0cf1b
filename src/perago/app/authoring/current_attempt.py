"""What a task body may know about the attempt it runs in, and say about its progress.

Outside a worker a stand-in answers, so that a body can be called from a test as it is.
"""

import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

logger = logging.getLogger("perago.task")

ReportProgress = Callable[[str, Mapping[str, object]], None]


class CancelSignal:
    """Set when the attempt no longer counts; a body that looks can stop early."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Tell the body that its work will be discarded."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the attempt was cancelled."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep up to `seconds`; True as soon as the attempt is cancelled."""
        return self._event.wait(seconds)


def _log_progress(message: str, facts: Mapping[str, object]) -> None:
    logger.info("%s", message, extra={"progress": dict(facts)})


@dataclass(frozen=True)
class CurrentAttempt:
    """The attempt a body runs in."""

    task_name: str = "local"
    workflow_id: str = "local"
    task_id: str = "local"
    reference_name: str = "local"
    execution_id: str = "local"
    retry_count: int = 0
    iteration: int = 0
    cancel: CancelSignal = field(default_factory=CancelSignal, compare=False)
    report: ReportProgress = field(default=_log_progress, compare=False, repr=False)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the ids of the attempt."""
        ids = {
            "workflow_id": self.workflow_id,
            "task_id": self.task_id,
            "retry_count": self.retry_count,
            "execution_id": self.execution_id,
        }
        return logging.LoggerAdapter(logger, ids)

    def progress(self, message: str, **facts: object) -> None:
        """Say how far the body is; goes to the log of the attempt, never to its output."""
        self.report(message, facts)


_current: ContextVar[CurrentAttempt | None] = ContextVar("perago_current_attempt", default=None)
# Threads that a body starts have a context of their own, but an executor runs one body at a time.
_in_this_process: list[CurrentAttempt] = []


def current_attempt() -> CurrentAttempt:
    """Return the attempt this body runs in, or a stand-in outside a worker.

    Threads of a body get it too, unless bodies share the process (execution mode `thread`):
    there the body hands it to them.
    """
    found = _current.get()
    if found is None and len(_in_this_process) == 1:
        (found,) = _in_this_process
    return found or CurrentAttempt()


@contextmanager
def running(attempt: CurrentAttempt) -> Generator[CurrentAttempt]:
    """Make `attempt` the current one, for the code inside the block only."""
    token = _current.set(attempt)
    _in_this_process.append(attempt)
    try:
        yield attempt
    finally:
        _in_this_process.remove(attempt)
        _current.reset(token)
