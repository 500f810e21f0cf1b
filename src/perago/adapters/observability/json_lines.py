"""The log of a worker: lines of JSON, the file they go to, and what is shown on a terminal.

`RotatedLogFile` rotates by size and removes old files of workers. `worker_log` connects file and
screen to Python's logging. Known secrets are masked.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias, cast, final

import pydantic_core
import structlog

from perago.domain.text import NO_SECRETS, Secrets, plain, plain_lines

SUFFIX = ".jsonl"
# Where the logs of workers are below the root: module, worker, process, and a number once full.
# Nothing else may be removed: a team may keep JSON lines of its own below the same root.
OF_WORKERS = f"*/worker_id=*/pid=*__started=*{SUFFIX}"
# Facts with several lines. They are shown indented, so that no line of them passes for an event.
OF_MANY_LINES = ("exception", "traceback", "stack")
# Libraries that log each request at INFO; only their warnings are written.
TALKATIVE = ("aiohttp", "urllib3", "asyncio")
Event: TypeAlias = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerLogSettings:
    """Which file, how large, how long, and what must never be in it."""

    file: Path
    root: Path
    bytes_max: int
    retention: timedelta
    secrets: Secrets = NO_SECRETS


@final
class JsonLines(logging.Formatter):
    """Each record as one line of JSON; structlog's processors take far longer for the same line."""

    def __init__(self, secrets: Secrets, *, is_ascii: bool = False) -> None:
        super().__init__()
        self._secrets = secrets
        self._is_ascii = is_ascii
        self._second, self._shown_second = -1, ""
        self._encode = json.JSONEncoder(ensure_ascii=is_ascii, default=repr).encode

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        document = {
            "event": record.getMessage(),
            **_facts(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": self._moment(record.created),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return self._encoded(self._secrets.masked_value(document))

    def _encoded(self, document: object) -> str:
        """The fast writer first: it refuses half a character, which a file can show escaped."""
        if not self._is_ascii:
            with suppress(ValueError):
                return pydantic_core.to_json(document, fallback=repr).decode()
        return self._encode(document)

    def _moment(self, created: float) -> str:
        """In UTC; many lines share their second."""
        microseconds = int(created * 1_000_000)
        second = microseconds // 1_000_000
        if second != self._second:
            self._second = second
            self._shown_second = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._shown_second}.{microseconds % 1_000_000:06d}Z"


@final
class RotatedLogFile(logging.FileHandler):
    """Writes to the file; full parts are `<name>.<number>.jsonl` beside it."""

    def __init__(self, settings: WorkerLogSettings) -> None:
        self._settings = settings
        self._path = path = settings.file
        # `mkdir(parents=True)` would create the directories between them with the usual mode, which
        # other users may read.
        for folder in (*reversed(path.parent.parents), path.parent):
            if folder.is_relative_to(settings.root):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, "a", encoding="utf-8")
        self._bytes = path.stat().st_size
        self._remove_old()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line at once and whole: the library's way is three calls of the system."""
        try:
            if self._bytes >= self._settings.bytes_max:
                self._begin_anew()
            if self.stream is None:
                self.stream = self._open()
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            self._bytes += os.write(self.stream.fileno(), line)
        except Exception:  # noqa: BLE001 - a log line ends nothing
            self.handleError(record)

    def _begin_anew(self) -> None:
        """Rename the full file and begin a new one."""
        if self.stream is not None:
            self.stream.close()
        number = 1
        while (part := self._part(number)).exists():
            number += 1
        self._path.rename(part)
        self.stream = self._open()
        self._bytes = 0
        self._remove_old()

    def _remove_old(self) -> None:
        """Remove the logs of all workers below the root that are older than the retention."""
        retention = self._settings.retention.total_seconds()
        oldest = time.time() - retention  # noqa: TID251 - compared with files
        for path in self._settings.root.glob(OF_WORKERS):
            with suppress(OSError):
                if path != self._path and path.stat().st_mtime < oldest:
                    path.unlink()

    def _open(self) -> TextIOWrapper:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def _part(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}.{number}{SUFFIX}")


@contextmanager
def worker_log(settings: WorkerLogSettings) -> Generator[None]:
    """Send every log line of this process there, for the block."""
    file, secrets = RotatedLogFile(settings), settings.secrets
    file.setFormatter(JsonLines(secrets))
    screen = logging.StreamHandler(sys.stderr)
    if sys.stderr.isatty():
        screen.setFormatter(_for_a_terminal(secrets))
    else:
        screen.setFormatter(JsonLines(secrets, is_ascii=True))
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


def _facts(record: logging.LogRecord) -> Mapping[str, object]:
    """What our own lines carry beside their text; records of libraries carry nothing."""
    facts: object = getattr(record, "perago", None)
    return cast("Mapping[str, object]", facts) if isinstance(facts, Mapping) else {}


def _for_a_terminal(secrets: Secrets) -> logging.Formatter:
    def show(logger: object, name: str, event: Event) -> Event:
        """Take out known secrets, and let no text of a task or a name give the terminal orders."""
        del logger, name
        facts, _ = _facts(event.pop("_record")), event.pop("_from_structlog")
        shown: Event = {}
        for key, value in {**facts, **event}.items():
            masked = secrets.masked_value(value)
            if key in OF_MANY_LINES:
                masked = plain_lines(masked).replace("\n", "\n  ")
            elif isinstance(masked, str):
                masked = plain(masked)
            shown[plain(secrets.masked(str(key)))] = masked
        return shown

    return structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            show,
            # Tracebacks are text by then; structlog before 26.1 warns of that if it may draw them.
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ],
    )
