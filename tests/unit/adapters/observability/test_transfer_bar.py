"""What is seen of a transfer: a bar on a terminal, lines of JSON elsewhere."""

import io
import json

from perago.adapters.observability.progress import TransferBar
from perago.ports.workspace import Phase

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
