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

LOGGER = logging.getLogger("perago.progress")


@final
class ProgressLog(Progress):
    """Writes phases to a logger; warnings at the level of warnings."""

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        with contextlib.suppress(Exception):
            level = logging.WARNING if phase is Phase.WARNED else logging.INFO
            LOGGER.log(level, "%s", progress_line(phase, facts))


def progress_line(phase: Phase, facts: Mapping[str, object]) -> str:
    """The JSON of one phase; facts that JSON does not know become text."""
    line = {"phase": str(phase), **facts}
    try:
        return json.dumps(line, ensure_ascii=False, allow_nan=False, default=_text)
    except (TypeError, ValueError, RecursionError):  # a NaN, a key that is no text, a circle
        shown = {str(key): _plain(value) for key, value in line.items()}
        return json.dumps(shown, ensure_ascii=False)


def _plain(value: object) -> object:
    """The value, or its text where JSON cannot carry it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _text(value)
    return value


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a fact whose own text fails is still a fact
        return f"<{type(value).__name__}>"


if TYPE_CHECKING:
    from rich import progress as rich_progress

_WORDS = {"down": "download", "up": "upload"}


@final
class TransferBar(Progress):
    """A bar for each direction, for a command that runs in a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._bars: rich_progress.Progress | None = None
        self._tasks: dict[str, rich_progress.TaskID] = {}
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

    def _started(self) -> "rich_progress.Progress":
        from rich import console  # noqa: PLC0415 - only where there is a terminal
        from rich import progress as rich_progress  # noqa: PLC0415 - as above

        self._bars = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.DownloadColumn(),
            rich_progress.TransferSpeedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.fields[note]}"),
            console=console.Console(file=self._stream),
        )
        self._bars.start()
        return self._bars
