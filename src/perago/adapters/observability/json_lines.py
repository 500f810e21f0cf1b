"""Our own log records as lines of JSON, several for each attempt, hence made without detours.

Same names and values as structlog gives to the lines of everybody else, who take its way. Known
secrets never pass.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast, final

import pydantic_core

from perago.domain.secret_text import Secrets


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
        if not isinstance(facts, Mapping) or record.exc_info:
            return self._others.format(record)
        told = {
            "event": record.getMessage(),
            **cast("Mapping[str, object]", facts),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": self._moment(record.created),
        }
        return self._encoded(self._secrets.masked_value(told))

    def _encoded(self, told: object) -> str:
        """The fast writer first: it refuses half a character, which a file can show escaped."""
        try:
            return pydantic_core.to_json(told, fallback=repr).decode()
        except ValueError:
            return self._encode(told)

    def _moment(self, created: float) -> str:
        """In UTC; many lines share their second."""
        microseconds = int(created * 1_000_000)
        second = microseconds // 1_000_000
        if second != self._second:
            self._second = second
            self._shown_second = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._shown_second}.{microseconds % 1_000_000:06d}Z"
