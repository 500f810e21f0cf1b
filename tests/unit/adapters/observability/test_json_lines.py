"""Our own lines, and whose else they are."""

import json
import logging

from perago.adapters.observability.json_lines import JsonLines
from perago.domain.text import Secrets

SECRET = "wJalrXUt"


def _record(text: str, facts: object, *, error: bool = False) -> logging.LogRecord:
    failure = (ValueError, ValueError(text), None) if error else None
    record = logging.LogRecord("perago.task", logging.WARNING, "", 0, text, (), failure)
    record.perago = facts
    record.created = 1893456000.5
    return record


def _lines() -> JsonLines:
    return JsonLines(logging.Formatter("others: %(message)s"), Secrets.of([SECRET]))


def test_a_line_has_its_facts_and_no_secret() -> None:
    line = _lines().format(_record(f"100 % of ü {SECRET}", {"task_id": "t", "odd": int}))
    assert json.loads(line) == {
        "event": "100 % of ü ***",
        "task_id": "t",
        "odd": "<class 'int'>",
        "level": "warning",
        "logger": "perago.task",
        "timestamp": "2030-01-01T00:00:00.500000Z",
    }
    assert "\n" not in _lines().format(_record("two\nlines", {}))


def test_half_a_character_stands_in_its_line_as_it_came() -> None:
    line = _lines().format(_record("name \udcff", {"task_id": "t"}))
    assert json.loads(line)["event"] == "name \udcff"


def test_what_is_not_ours_or_has_a_traceback_takes_the_other_way() -> None:
    assert _lines().format(_record("theirs", None)) == "others: theirs"
    assert _lines().format(_record("failed", {}, error=True)).startswith("others: failed")
