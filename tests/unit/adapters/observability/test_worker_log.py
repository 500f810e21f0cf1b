"""The log of a worker: JSON lines, rotated and removed, for its owner only, without secrets."""

import json
import logging
import os
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from perago.adapters.observability.json_lines import WorkerLogSettings, worker_log
from perago.app.authoring.failure import result_for_exception
from perago.app.telemetry.listeners import write
from perago.app.telemetry.metrics import BodyTelemetry, Metrics
from perago.domain.errors import TaskFailed
from perago.domain.text import Secrets

SECRET = "hunter2secret"
AWKWARD = 's3cr"et\\key\u00e9'  # a quote, a backslash and a letter that encoders write otherwise
HOSTILE = "\x1b]0;stolen\x07\x1b[2J\x9b31m\r2030-01-01 [info] all is well\nand a line"
LOGGER = logging.getLogger("perago.attempt")


def settings(tmp_path: Path, *, bytes_max: int = 10_000) -> WorkerLogSettings:
    root = tmp_path / "logs"
    return WorkerLogSettings(
        file=root / "team_tasks" / "worker_id=w" / "pid=1__started=20300101T000000+0000.jsonl",
        root=root,
        bytes_max=bytes_max,
        retention=timedelta(days=1),
        secrets=Secrets.of([SECRET, AWKWARD]),
    )


def fail(text: str) -> NoReturn:
    raise LookupError(text)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_has_event_facts_level_logger_and_time(tmp_path: Path) -> None:
    log = settings(tmp_path)
    with worker_log(log):
        write(LOGGER, logging.WARNING, "attempt ended", {"execution_id": "e1", "seconds": 0.5})
        logging.getLogger("urllib3.connectionpool").warning("a library speaks as well")
    ended, library = lines(log.file)
    assert ended.pop("timestamp").endswith("Z")
    assert ended == {
        "event": "attempt ended",
        "execution_id": "e1",
        "seconds": 0.5,
        "level": "warning",
        "logger": "perago.attempt",
    }
    assert (library["event"], library["level"]) == ("a library speaks as well", "warning")


def test_a_reason_that_was_cut_says_how_much(tmp_path: Path) -> None:
    log = settings(tmp_path)
    with worker_log(log):
        result_for_exception(TaskFailed("123456"), max_length=5)
    (line,) = lines(log.file)
    assert line["event"] == "truncated task failure reason"
    assert (line["original_length"], line["max_length"]) == (6, 5)


def test_a_traceback_is_one_line_of_json(tmp_path: Path) -> None:
    log = settings(tmp_path)
    with worker_log(log):
        try:
            fail("no such shelf")
        except LookupError:
            LOGGER.exception("it went wrong")
    (line,) = lines(log.file)
    assert "LookupError: no such shelf" in line["exception"]
    assert "Traceback" in line["exception"]


def test_a_secret_passes_in_no_place_of_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = settings(tmp_path)
    with worker_log(log):
        LOGGER.error("with %s inside", SECRET)
        write(LOGGER, logging.ERROR, "facts", {"url": f"http://key:{SECRET}@host"})
        try:
            fail(SECRET)
        except LookupError:
            LOGGER.exception("raised")
    assert SECRET not in log.file.read_text(encoding="utf-8") + capsys.readouterr().err
    assert [line["event"] for line in lines(log.file)] == ["with *** inside", "facts", "raised"]


@pytest.mark.parametrize("watched", [True, False], ids=["terminal", "pipe"])
def test_a_secret_that_encoders_write_otherwise_passes_nowhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    watched: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched)
    log = settings(tmp_path)
    with worker_log(log):
        LOGGER.error("with %s inside", AWKWARD)
        LOGGER.error("in a repr: %s", {"key": AWKWARD})
        write(LOGGER, logging.ERROR, AWKWARD, {AWKWARD: [{"deep": AWKWARD}], "json": [AWKWARD]})
        try:
            fail(AWKWARD)
        except LookupError:
            LOGGER.exception("raised")
    told = log.file.read_text(encoding="utf-8") + capsys.readouterr().err
    assert "s3cr" not in told
    assert told.count("***") >= 10
    assert lines(log.file)[2]["***"] == [{"deep": "***"}]


def test_a_full_file_is_renamed_and_no_line_is_lost(tmp_path: Path) -> None:
    log = settings(tmp_path, bytes_max=2_000)
    with worker_log(log):
        for number in range(60):
            write(LOGGER, logging.INFO, "attempt started", {"number": number})
    parts = sorted(log.file.parent.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    assert len(parts) > 3
    assert parts[-1] == log.file
    assert max(part.stat().st_size for part in parts) < 2_300
    told = [line["number"] for part in parts for line in lines(part)]
    assert sorted(told) == list(range(60))


def test_files_older_than_the_retention_go_at_start_and_others_stay(tmp_path: Path) -> None:
    log = settings(tmp_path)
    other = log.root / "other" / "worker_id=x"
    other.mkdir(parents=True)
    old, young = other / "pid=7__started=a.1.jsonl", other / "pid=7__started=a.jsonl"
    for path, days in ((old, 2), (young, 0.5)):
        path.write_text("{}\n")
        then = path.stat().st_mtime - days * 86_400
        os.utime(path, (then, then))
    with worker_log(log):
        pass
    assert list(other.iterdir()) == [young]


@pytest.mark.parametrize(
    "place",
    [
        "train.jsonl",
        "datasets/train.jsonl",
        "team_tasks/worker_id=w/train.jsonl",
        "datasets/worker_id=w/2030/pid=1__started=a.jsonl",
        "pid=1__started=a.jsonl",
        "team_tasks/worker_id=x/pid=1__started=a.txt",
    ],
)
def test_a_file_that_no_worker_logged_to_is_never_removed(tmp_path: Path, place: str) -> None:
    log = settings(tmp_path)
    foreign = log.root / place
    foreign.parent.mkdir(parents=True)
    foreign.write_text("{}\n")
    os.utime(foreign, (0, 0))
    with worker_log(log):
        pass
    assert foreign.exists()


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    log = settings(tmp_path)
    with worker_log(log):
        LOGGER.warning("here")
    for path in (log.root, *log.root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_screen_that_is_no_terminal_has_what_is_for_an_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with worker_log(settings(tmp_path)):
        LOGGER.info("attempt started")
        logging.getLogger("perago.worker").info("worker started")
        LOGGER.warning("attempt lost")
    told = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["worker started", "attempt lost"]


def test_a_terminal_gets_lines_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with worker_log(settings(tmp_path)):
        write(LOGGER, logging.INFO, "attempt started", {"execution_id": "e1"})
    (line,) = capsys.readouterr().err.splitlines()
    assert "attempt started" in line
    assert "e1" in line
    assert not line.startswith("{")


def test_no_text_of_a_task_gives_orders_to_the_terminal_or_looks_like_a_line_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with worker_log(settings(tmp_path)):
        BodyTelemetry(Metrics()).output(None, "stdout", HOSTILE)
        write(LOGGER, logging.INFO, "read", {HOSTILE: HOSTILE, "names": [HOSTILE]})
        LOGGER.info(HOSTILE)
        try:
            fail(HOSTILE)
        except LookupError:
            LOGGER.exception("raised")
    # Colours are the worker's own; nothing else may stand behind an escape.
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)
    assert not set("\x1b\x07\x9b\r") & set(shown)
    assert r"\x1b]0;stolen" in shown
    beginnings = [line for line in shown.splitlines() if line and not line.startswith(" ")]
    assert [
        line for line in beginnings if "[info" in line[:60] and "all is well" in line[:60]
    ] == []
    assert sum("and a line" in line for line in beginnings) == 3
