"""Progress outside of a worker: one line of JSON for each phase, a bar on a terminal."""

import io
import json
import logging

import pytest

from perago.adapters.observability.progress import LOGGER, ProgressLog, TransferBar, progress_line
from perago.ports.workspace import Phase


def test_a_phase_is_one_line_of_json() -> None:
    line = progress_line(Phase.STAGED, {"branch": "b", "objects": 3, "bad": ValueError("x\ny")})
    assert "\n" not in line
    assert json.loads(line) == {"phase": "staged", "branch": "b", "objects": 3, "bad": "x\ny"}


@pytest.mark.parametrize("fact", [float("nan"), {(1, 2): 3}], ids=str)
def test_a_fact_that_json_cannot_carry_is_text_and_costs_no_other(fact: object) -> None:
    facts = {"fact": fact, "objects": 3, "seconds": 0.5, "known": None, "counts": {"up": 1}}
    line = json.loads(progress_line(Phase.STAGED, facts), parse_constant=pytest.fail)
    assert line == {"phase": "staged", **facts, "fact": str(fact)}


def test_a_warning_has_the_level_of_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER.name):
        ProgressLog().phase(Phase.PUBLISHED, {})
        ProgressLog().phase(Phase.WARNED, {"what": "x"})
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]


FACTS = {
    "direction": "down",
    "files_total": 30,
    "bytes_total": 4_000_000,
    "cached": 7,
    "skipped": 0,
    "files": 8,
    "requests": 10,
    "bytes": 1_000_000,
    "bytes_per_second": 500_000,
    "eta_seconds": 6.0,
}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_a_terminal_gets_a_bar_with_amount_rate_and_what_was_cached() -> None:
    terminal = Terminal()
    bar = TransferBar(terminal)
    bar.phase(Phase.TRANSFERRING, FACTS)
    bar.phase(Phase.TRANSFERRING, {**FACTS, "bytes": 4_000_000})
    bar.close()
    drawn = terminal.getvalue()
    assert "download" in drawn
    assert "4.0/4.0 MB" in drawn
    assert "8/30 files, 7 from the cache" in drawn
    assert '"phase"' not in drawn


def test_a_terminal_says_what_need_not_move() -> None:
    terminal = Terminal()
    bar = TransferBar(terminal)
    bar.phase(Phase.TRANSFERRING, {**FACTS, "direction": "up", "cached": 0, "skipped": 12})
    bar.close()
    assert "8/30 files, 12 unchanged" in terminal.getvalue()


def test_a_pipe_gets_one_line_of_json_for_each_event() -> None:
    pipe = io.StringIO()
    bar = TransferBar(pipe)
    bar.phase(Phase.TRANSFERRING, FACTS)
    bar.phase(Phase.STAGED, {"objects": 3})
    bar.close()
    assert [json.loads(line) for line in pipe.getvalue().splitlines()] == [
        {"phase": "transferring", **FACTS}
    ]


def test_facts_that_are_not_those_of_a_transfer_draw_nothing() -> None:
    terminal = Terminal()
    bar = TransferBar(terminal)
    bar.phase(Phase.TRANSFERRING, {"direction": "down"})
    bar.close()
    assert "files" not in terminal.getvalue()
