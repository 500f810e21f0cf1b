"""What signals ask of a worker: drain, abort, show where everything stands.

As process 1 of a container nothing happens by default, so every signal that matters has a
handler. What draining means is not known here.
"""

import asyncio
import faulthandler
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

ENDING = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class SignalAnswers:
    """What is done about signals; `end` is told which signal came."""

    end: Callable[[signal.Signals], None]
    dump: Callable[[], None]


@contextmanager
def answered_signals(answers: SignalAnswers) -> Generator[None]:
    """Answer signals in the running loop, for the block."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, answers.end, number)
    loop.add_signal_handler(signal.SIGUSR1, _dump, answers)
    try:
        yield
    finally:
        for number in (*ENDING, signal.SIGUSR1):
            loop.remove_signal_handler(number)


def _dump(answers: SignalAnswers) -> None:
    """Stacks of every thread and task to standard error, then what the worker knows."""
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    for task in asyncio.all_tasks():
        task.print_stack(limit=4, file=sys.stderr)
    sys.stderr.flush()
    answers.dump()
