"""A log file that is renamed when it is full, and whose old parts go when they are too old.

Every directory and file is its owner's only. Knows no format.
"""

import logging
import os
import time
from contextlib import suppress
from datetime import timedelta
from io import TextIOWrapper
from logging.handlers import BaseRotatingHandler
from pathlib import Path
from typing import final

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
        self._place = path
        # `parents` would give the directories between them to everybody.
        for folder in (*reversed(path.parent.parents), path.parent):
            if folder == root or folder.is_relative_to(root):
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
        self._place.rename(part)
        self.stream = self._open()
        self._bytes = 0
        self.remove_old()

    def remove_old(self) -> None:
        """Remove the logs of all workers below the root that are older than the retention."""
        oldest = time.time() - self._retention.total_seconds()  # noqa: TID251 - compared with files
        for path in self._root.glob(OF_WORKERS):
            with suppress(OSError):
                if path != self._place and path.stat().st_mtime < oldest:
                    path.unlink()

    def _open(self) -> TextIOWrapper:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def _part(self, number: int) -> Path:
        return self._place.with_name(f"{self._place.stem}.{number}{SUFFIX}")
