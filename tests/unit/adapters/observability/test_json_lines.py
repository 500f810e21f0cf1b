"""One line of JSON for each record, ours or another's."""

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
    return JsonLines(Secrets.of([SECRET]))


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


def test_what_is_not_ours_and_a_traceback_have_the_same_names() -> None:
    theirs = json.loads(_lines().format(_record(f"of a library {SECRET}", None)))
    assert list(theirs) == ["event", "level", "logger", "timestamp"]
    failed = json.loads(_lines().format(_record(SECRET, {"task_id": "t"}, error=True)))
    assert list(failed) == ["event", "task_id", "level", "logger", "timestamp", "exception"]
    assert failed["exception"] == "ValueError: ***"


def test_a_pipe_gets_letters_that_it_can_write() -> None:
    line = JsonLines(Secrets.of([]), is_ascii=True).format(_record("\u00fc \udcff", {"odd": int}))
    assert line.isascii()
    assert json.loads(line)["event"] == "\u00fc \udcff"
    assert json.loads(line)["odd"] == "<class 'int'>"
