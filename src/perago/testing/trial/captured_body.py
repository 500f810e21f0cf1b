"""One call of a body in this thread, with the lines it printed and logged.

Must not be used where two bodies run at once: output is the process's.
"""

import contextlib
import io
import logging
from collections.abc import Mapping
from typing import final

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.body_observer import NobodyObserves
from perago.app.worker.run_body import BodySurroundings, run_body
from perago.app.worker.sent_outcome import sent_outcome
from perago.ports.task_body import BodyCall, BodyOutcome

OUTPUT_LINES_MAX = 1000


@final
class LineObserver(NobodyObserves):
    """Writes what a body says of its progress among its lines."""

    def __init__(self, lines: io.StringIO) -> None:
        self._lines = lines

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep the message."""
        del call
        self._lines.write(f"{message} {dict(facts)}\n" if facts else f"{message}\n")


def run_captured(task: TaskDefinition, call: BodyCall) -> tuple[BodyOutcome, list[str]]:
    """Run one body; its outcome, and the first lines it printed and logged.

    A result that an executor could not send to its parent is a failure here as well.
    """
    lines = io.StringIO()
    log = logging.StreamHandler(lines)
    log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(min(level, logging.INFO))  # as a worker logs
    try:
        with contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
            outcome = run_body(task, call, BodySurroundings(observer=LineObserver(lines)))
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    _, outcome = sent_outcome(call, outcome)
    return outcome, lines.getvalue().splitlines()[:OUTPUT_LINES_MAX]
