"""What a task function asks of the attempt that it runs in: ids, progress, checkpoints, changes."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from perago.app.authoring.checkpoint_copies import note_text, put_copy, survey
from perago.domain.errors import ChangesRefusedError, CheckpointRefusedError
from perago.ports.task_body import Changes, Checkpoint, CheckpointTerms

logger = logging.getLogger("perago.task")

ReportProgress = Callable[[str, Mapping[str, object]], None]


class CancelSignal:
    """Set when the attempt no longer counts; a task function that looks can stop early."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Say that the work of the task function will be discarded."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the attempt was cancelled."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep up to `seconds`; True as soon as the attempt is cancelled."""
        return self._event.wait(seconds)


def _log_progress(message: str, facts: Mapping[str, object]) -> None:
    logger.info("%s", message, extra={"progress": dict(facts)})


TakeCheckpoint = Callable[[Path, object], bool]


def _keep_nothing(path: Path, note: object) -> bool:
    """Outside a worker a task function is a plain function, without a later attempt."""
    del path, note
    return False


AskForChanges = Callable[[], Changes | None]


def _nothing_published() -> Changes | None:
    """Outside a worker nothing was published before, so everything has to be done."""
    return None


@final
class ChangesAsker:
    """Asks once in a call, whichever of its threads is first; the others get the same answer."""

    def __init__(self, ask: AskForChanges) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._closed = False
        self._answer: list[Changes | None] = []

    def __call__(self) -> Changes | None:
        """Raises ChangesRefusedError where there is no answer."""
        with self._lock:
            if self._closed:
                raise ChangesRefusedError.because("the task function has ended")
            if not self._answer:
                self._answer.append(self._ask())
            return self._answer[0]

    def close(self) -> None:
        """Answer nothing more, and wait for the answer that is on its way.

        The next call of this process would meet it.
        """
        with self._lock:
            self._closed = True


@dataclass(frozen=True)
class CurrentAttempt:
    """The attempt in which a task function runs."""

    task_name: str = "local"
    workflow_id: str = "local"
    task_id: str = "local"
    reference_name: str = "local"
    execution_id: str = "local"
    retry_count: int = 0
    iteration: int = 0
    cancel: CancelSignal = field(default_factory=CancelSignal, compare=False)
    report: ReportProgress = field(default=_log_progress, compare=False, repr=False)
    resumed_from: Checkpoint | None = field(default=None, compare=False)
    take: TakeCheckpoint = field(default=_keep_nothing, compare=False, repr=False)
    ask: AskForChanges = field(default=_nothing_published, compare=False, repr=False)

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
        """Log how far the task function is; the output of the attempt does not change."""
        self.report(message, facts)

    def checkpoint(self, path: str | Path, *, note: object = None) -> bool:
        """Keep a file or a directory for the next attempt, which finds it as `resumed_from`.

        Returns when the files are copied; they are uploaded while the function goes on. Whether it
        was kept: a call within `PERAGO_CHECKPOINT_INTERVAL` of the last one copies nothing. The
        note is plain JSON.
        """
        return self.take(Path(path), note)

    def changes(self) -> Changes | None:
        """What is new in the input since this task published last: `added`, `changed`, `removed`.

        None where everything has to be done: no publication of this task is below the input, it is
        more than 10,000 commits old, or more than 100,000 files have changed. Nothing is downloaded
        for it, and a second call costs nothing.
        """
        return self.ask()


@dataclass(frozen=True, slots=True)
class CopyTaken:
    """One copy that was put where the parent finds it."""

    files: int
    bytes: int


@final
class CheckpointTaker:
    """Takes the checkpoints of one call; threads of the task function may share it."""

    def __init__(
        self,
        terms: CheckpointTerms,
        taken: Callable[[CopyTaken], None],
        *,
        cancel: CancelSignal | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terms = terms
        self._taken = taken
        self._cancel = CancelSignal() if cancel is None else cancel
        self._now = now
        self._last: float | None = None
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, source: Path, note: object) -> bool:
        """Copy and return True; False when it is too early, or the disk took no copy.

        Raises CheckpointRefusedError for what can never be a checkpoint.
        """
        terms = self._terms
        if terms.refused:
            raise CheckpointRefusedError.because(terms.refused)
        with self._lock:
            if self._closed or self._cancel.is_set():
                return False
            now = self._now()
            if self._last is not None and now - self._last < terms.interval_seconds:
                return False
            about = note_text(note)
            files = survey(source, terms.bytes_max)
            try:
                put_copy(files, about, Path(terms.out))
            except OSError as error:
                # The disk of the worker is no reason to lose the work that it should save.
                logger.warning("no checkpoint was taken: %s", error)
                return False
            self._last = now
            self._taken(CopyTaken(len(files), sum(file.size for file in files)))
            return True

    def close(self) -> None:
        """Take nothing more.

        A thread that the function left behind would copy into a directory that is removed by then.
        """
        with self._lock:
            self._closed = True


_current: ContextVar[CurrentAttempt | None] = ContextVar("perago_current_attempt", default=None)
# Threads that a task function starts have a context of their own. An executor runs one function
# at a time, so they find it here.
_in_this_process: list[CurrentAttempt] = []


def current_attempt() -> CurrentAttempt:
    """Return the attempt that this task function runs in, or a stand-in outside a worker.

    Threads that a task function starts get it too. In execution mode `thread` they do not, because
    several task functions share the process: pass it to them.
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
