"""Where the log lines of a worker go: JSON into a file, and what matters to standard error.

One chain of structlog over Python's logging, so that lines of libraries take the same way. Known
secrets never pass. What is logged is decided elsewhere.
"""

import logging
import sys
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from perago.adapters.observability.json_lines import JsonLines
from perago.adapters.observability.log_file import RotatedLogFile
from perago.domain.secret_text import NO_SECRETS, Secrets
from perago.domain.terminal_text import plain, plain_lines

Event: TypeAlias = MutableMapping[str, Any]
Processor: TypeAlias = Callable[[Any, str, Event], Any]
# Their lines are ours. Indented, no line of them can be taken for an event.
OF_MANY_LINES = ("exception", "traceback", "stack")
# Libraries that tell each request; their warnings still pass.
TALKATIVE = ("aiohttp", "urllib3", "asyncio")


@dataclass(frozen=True, slots=True)
class WorkerLogSettings:
    """Which file, how large, how long, and what must never be in it."""

    file: Path
    root: Path
    bytes_max: int
    retention: timedelta
    secrets: Secrets = NO_SECRETS


@contextmanager
def worker_log(settings: WorkerLogSettings) -> Generator[None]:
    """Send every log line of this process there, for the block."""
    file = RotatedLogFile(
        settings.file,
        bytes_max=settings.bytes_max,
        retention=settings.retention,
        root=settings.root,
    )
    secrets = settings.secrets
    others = _formatter(secrets, structlog.processors.JSONRenderer(ensure_ascii=False))
    file.setFormatter(JsonLines(others, secrets))
    screen = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    if is_terminal:
        screen.setFormatter(_formatter(secrets, _printable, structlog.dev.ConsoleRenderer()))
    else:
        screen.setFormatter(_formatter(secrets, structlog.processors.JSONRenderer()))
        screen.addFilter(_is_for_the_operator)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for handler in (file, screen):
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in (file, screen):
            root.removeHandler(handler)
            handler.flush()
        file.close()


def _is_for_the_operator(record: logging.LogRecord) -> bool:
    """Where nobody watches, the stories of single attempts are for the file."""
    return record.levelno >= logging.WARNING or record.name in {"perago.worker", "perago.executor"}


def _formatter(secrets: Secrets, *renderers: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            _add_facts,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _masking(secrets),
            *renderers,
        ],
    )


def _add_facts(logger: object, name: str, event: Event) -> Event:
    """What our own lines carry beside their text."""
    del logger, name
    facts = getattr(event["_record"], "perago", None)
    if isinstance(facts, dict):
        for key, value in facts.items():  # pyright: ignore[reportUnknownVariableType]
            event.setdefault(str(key), value)  # pyright: ignore[reportUnknownArgumentType]
    return event


def _masking(secrets: Secrets) -> Processor:
    """Take known secrets out of everything that a line will be made of."""

    def mask(logger: object, name: str, event: Event) -> Event:
        del logger, name
        return {secrets.masked(key): secrets.masked_value(each) for key, each in event.items()}

    return mask


def _printable(logger: object, name: str, event: Event) -> Event:
    """Let no text of a task or a name reach the terminal as an order to it."""
    del logger, name
    shown: Event = {}
    for key, value in event.items():
        if key in OF_MANY_LINES:
            shown[plain(key)] = plain_lines(value).replace("\n", "\n  ")
        else:
            shown[plain(key)] = plain(value) if isinstance(value, str) else value
    return shown
