"""Progress of an attempt outside of a worker: lines of JSON in a log, or a bar on a terminal.

Decides nothing and never raises: a fact that cannot be written is written as its type.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, TextIO, final

from perago.ports.workspace import Phase, Progress

LOGGER_NAME = "perago.progress"


@final
class ProgressLog(Progress):
    """Writes phases to a logger; warnings at the level of warnings."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger if logger is not None else logging.getLogger(LOGGER_NAME)

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        with contextlib.suppress(Exception):
            level = logging.WARNING if phase is Phase.WARNED else logging.INFO
            self._logger.log(level, "%s", progress_line(phase, facts))


def progress_line(phase: Phase, facts: Mapping[str, object]) -> str:
    """The JSON of one phase; facts that JSON does not know become text."""
    line: dict[str, object] = {"phase": str(phase)}
    for key, value in facts.items():
        line[str(key)] = _plain(value)
    return json.dumps(line, ensure_ascii=False)


def _plain(value: object) -> object:
    """The value as JSON; what JSON cannot carry, such as a NaN or a path, as its text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a fact whose own text fails is still a fact
        return f"<{type(value).__name__}>"


if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_WORDS = {"down": "download", "up": "upload"}


@final
class TransferBar(Progress):
    """A bar for each direction, for a command that runs in a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._lock = Lock()

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        if phase is not Phase.TRANSFERRING:
            return
        with contextlib.suppress(Exception), self._lock:
            if self._stream.isatty():
                self._draw(facts)
            else:
                self._stream.write(progress_line(phase, facts) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Leave the terminal as it is."""
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def _draw(self, facts: Mapping[str, object]) -> None:
        direction = str(facts["direction"])
        bars = self._bars or self._started()
        task = self._tasks.get(direction)
        if task is None:
            total = float(str(facts["bytes_total"]))
            task = bars.add_task(_WORDS.get(direction, direction), total=total, note="")
            self._tasks[direction] = task
        cached, skipped = facts["cached"], facts["skipped"]
        note = f"{facts['files']}/{facts['files_total']} files"
        note += f", {cached} from the cache" if cached else ""
        note += f", {skipped} unchanged" if skipped else ""
        bars.update(task, completed=float(str(facts["bytes"])), note=note)

    def _started(self) -> "Bars":
        from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
        from rich.progress import (  # noqa: PLC0415 - as above
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as Bars  # noqa: PLC0415 - as above

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=self._stream),
        )
        self._bars.start()
        return self._bars
