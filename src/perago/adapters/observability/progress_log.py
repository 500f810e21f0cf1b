"""One line of JSON per phase of an attempt, through the standard logging.

Decides nothing and never raises: a fact that cannot be written is written as its type.
"""

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import final

from perago.ports.progress import Phase, Progress

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
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a fact whose own text fails is still a fact
        return f"<{type(value).__name__}>"
