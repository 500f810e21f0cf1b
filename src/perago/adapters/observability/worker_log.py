"""Where the log lines of a worker go: JSON into a file, and what matters to standard error.

One chain of structlog over Python's logging, so that lines of libraries take the same way. Known
secrets never pass. What is logged is decided elsewhere.
"""

import logging
import sys
from collections.abc import Callable, Collection, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from perago.adapters.observability.json_lines import JsonLines, without_secrets
from perago.adapters.observability.log_file import RotatedLogFile

Event: TypeAlias = MutableMapping[str, Any]
Processor: TypeAlias = Callable[[Any, str, Event], Any]
SECRET_CHARACTERS_MIN = 4
# Libraries that tell each request; their warnings still pass.
TALKATIVE = ("aiohttp", "urllib3", "asyncio")


@dataclass(frozen=True, slots=True)
class WorkerLogSettings:
    """Which file, how large, how long, and what must never be in it."""

    file: Path
    root: Path
    bytes_max: int
    retention: timedelta
    secrets: Collection[str] = ()


@contextmanager
def worker_log(settings: WorkerLogSettings) -> Generator[None]:
    """Send every log line of this process there, for the block."""
    secrets = [each for each in settings.secrets if len(each) >= SECRET_CHARACTERS_MIN]
    file = RotatedLogFile(
        settings.file,
        bytes_max=settings.bytes_max,
        retention=settings.retention,
        root=settings.root,
    )
    others = _formatter(structlog.processors.JSONRenderer(ensure_ascii=False), secrets)
    file.setFormatter(JsonLines(others, secrets))
    screen = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    if is_terminal:
        screen.setFormatter(_formatter(structlog.dev.ConsoleRenderer(), secrets))
    else:
        screen.setFormatter(_formatter(structlog.processors.JSONRenderer(), secrets))
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


def _formatter(renderer: Processor, secrets: list[str]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            _add_facts,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            masked(renderer, secrets),
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


def masked(renderer: Processor, secrets: list[str]) -> Processor:
    """The same, with known secrets taken out of the finished line."""

    def render(logger: object, name: str, event: Event) -> str:
        return without_secrets(str(renderer(logger, name, event)), secrets)

    return render
