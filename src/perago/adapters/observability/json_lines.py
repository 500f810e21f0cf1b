"""The log of a worker: lines of JSON, the file they go to, and what is written by whom.

`JsonLines` formats our own records, several for each attempt, without structlog's processors, and
with the same names and values. `RotatedLogFile` rotates by size and removes old files of workers.
`worker_log` connects both to Python's logging. Known secrets are masked.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from logging.handlers import BaseRotatingHandler
from pathlib import Path
from typing import Any, TypeAlias, cast, final

import pydantic_core
import structlog

from perago.domain.text import NO_SECRETS, Secrets, plain, plain_lines


@final
class JsonLines(logging.Formatter):
    """What carries our facts and no traceback is written here, the rest by the other formatter."""

    def __init__(self, others: logging.Formatter, secrets: Secrets) -> None:
        super().__init__()
        self._others = others
        self._secrets = secrets
        self._second, self._shown_second = -1, ""
        self._encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        facts: object = getattr(record, "perago", None)
        # Records of libraries, and tracebacks: structlog formats both as it does elsewhere.
        if not isinstance(facts, Mapping) or record.exc_info:
            return self._others.format(record)
        document = {
            "event": record.getMessage(),
            **cast("Mapping[str, object]", facts),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": self._moment(record.created),
        }
        return self._encoded(self._secrets.masked_value(document))

    def _encoded(self, document: object) -> str:
        """The fast writer first: it refuses half a character, which a file can show escaped."""
        try:
            return pydantic_core.to_json(document, fallback=repr).decode()
        except ValueError:
            return self._encode(document)

    def _moment(self, created: float) -> str:
        """In UTC; many lines share their second."""
        microseconds = int(created * 1_000_000)
        second = microseconds // 1_000_000
        if second != self._second:
            self._second = second
            self._shown_second = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._shown_second}.{microseconds % 1_000_000:06d}Z"


SUFFIX = ".jsonl"
# Where the logs of workers are below the root: module, worker, process, and a number once full.
# Nothing else may be removed: a team may keep JSON lines of its own below the same root.
OF_WORKERS = f"*/worker_id=*/pid=*__started=*{SUFFIX}"


@final
class RotatedLogFile(BaseRotatingHandler):
    """Writes to `path`; full parts are `<name>.<number>.jsonl` beside it."""

    def __init__(self, path: Path, *, bytes_max: int, retention: timedelta, root: Path) -> None:
        self._bytes_max = bytes_max
        self._retention = retention
        self._root = root
        self._path = path
        # `mkdir(parents=True)` would create the directories between them with the usual mode, which
        # other users may read.
        for folder in (*reversed(path.parent.parents), path.parent):
            if folder.is_relative_to(root):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, "a", encoding="utf-8")
        self._bytes = path.stat().st_size
        self.remove_old()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line at once and whole: the library's way is three calls of the system."""
        try:
            if self.shouldRollover(record):
                self.doRollover()
            if self.stream is None:
                self.stream = self._open()
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            self._bytes += os.write(self.stream.fileno(), line)
        except Exception:  # noqa: BLE001 - a log line ends nothing
            self.handleError(record)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the library's name
        """Whether the file has reached its size."""
        del record
        return self._bytes >= self._bytes_max

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        """Rename the full file and begin a new one."""
        if self.stream is not None:
            self.stream.close()
        number = 1
        while (part := self._part(number)).exists():
            number += 1
        self._path.rename(part)
        self.stream = self._open()
        self._bytes = 0
        self.remove_old()

    def remove_old(self) -> None:
        """Remove the logs of all workers below the root that are older than the retention."""
        oldest = time.time() - self._retention.total_seconds()  # noqa: TID251 - compared with files
        for path in self._root.glob(OF_WORKERS):
            with suppress(OSError):
                if path != self._path and path.stat().st_mtime < oldest:
                    path.unlink()

    def _open(self) -> TextIOWrapper:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def _part(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}.{number}{SUFFIX}")


Event: TypeAlias = MutableMapping[str, Any]
Processor: TypeAlias = Callable[[Any, str, Event], Any]
# Facts with several lines. They are shown indented, so that no line of them passes for an event.
OF_MANY_LINES = ("exception", "traceback", "stack")
# Libraries that log each request at INFO; only their warnings are written.
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
        # Tracebacks are text by then; structlog before 26.1 warns of that if it may draw them.
        plainly = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        screen.setFormatter(_formatter(secrets, _printable, plainly))
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
    """Whether a line goes to standard error, too: not each step of each attempt."""
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
