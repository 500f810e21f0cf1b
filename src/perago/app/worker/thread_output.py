"""What bodies in threads print and log, told with their attempt as an executor's is.

Looks at the context of whoever speaks; everybody else is heard as before.
"""

import io
import logging
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TextIO, final

from perago.app.telemetry.body_observer import BodyObserver
from perago.ports.task_body import BodyCall


@dataclass(slots=True)
class _Speaker:
    """A body that runs, and the lines it has not ended yet."""

    call: BodyCall
    observer: BodyObserver
    begun: dict[str, str] = field(default_factory=dict[str, str])

    def say(self, stream: str, text: str) -> None:
        *lines, self.begun[stream] = (self.begun.get(stream, "") + text).split("\n")
        for line in lines:
            self.observer.output(self.call, stream, line)

    def end(self) -> None:
        """A line without its end is a line."""
        for stream, line in self.begun.items():
            if line:
                self.observer.output(self.call, stream, line)


_speaker: ContextVar[_Speaker | None] = ContextVar("perago_speaker", default=None)


@contextmanager
def speaking(call: BodyCall, observer: BodyObserver) -> Generator[None]:
    """What is said in this context belongs to this call."""
    speaker = _Speaker(call, observer)
    token = _speaker.set(speaker)
    try:
        yield
    finally:
        _speaker.reset(token)
        speaker.end()


@contextmanager
def heard_threads() -> Generator[None]:
    """Listen to standard output, standard error and the log, for a block."""
    handlers = list(logging.getLogger().handlers)
    before = sys.stdout, sys.stderr
    listener = _LogListener()
    with ExitStack() as stack:
        for handler in handlers:
            handler.addFilter(listener)
            stack.callback(handler.removeFilter, listener)
        sys.stdout, sys.stderr = _Stream("stdout", before[0]), _Stream("stderr", before[1])
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@final
class _Stream(io.TextIOBase):
    """One of the two streams; whoever is no body writes to the one beneath."""

    def __init__(self, name: str, beneath: TextIO) -> None:
        super().__init__()
        self._name = name
        self._beneath = beneath

    def write(self, text: str) -> int:
        """Write, or say."""
        speaker = _speaker.get()
        if speaker is None:
            return self._beneath.write(text)
        speaker.say(self._name, text)
        return len(text)

    def flush(self) -> None:
        """Lines are told when they end."""
        self._beneath.flush()

    def fileno(self) -> int:
        """The one beneath's, for programs that a body starts."""
        return self._beneath.fileno()

    def isatty(self) -> bool:
        """As the one beneath."""
        return self._beneath.isatty()


@final
class _LogListener(logging.Filter):
    """Turns a record of a body into a line of its attempt, once for all handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Records that carry our facts are lines of ours already."""
        speaker = _speaker.get()
        if speaker is None or hasattr(record, "perago"):
            return True
        if not hasattr(record, "perago_heard"):
            record.perago_heard = True
            text = logging.Formatter("%(message)s").format(record)
            speaker.observer.logged(speaker.call, record.levelno, record.name, text)
        return False
