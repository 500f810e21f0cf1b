"""What the exit code of `perago start` tells a service manager."""

import signal

import pytest

from perago.app.start_worker import exit_code
from perago.app.worker.worker import WorkerEnd


@pytest.mark.parametrize(
    ("end", "number", "code"),
    [
        (WorkerEnd.DRAINED, signal.SIGTERM, 0),
        (WorkerEnd.DRAINED, None, 0),
        (WorkerEnd.ABORTED, signal.SIGTERM, 143),
        (WorkerEnd.ABORTED, signal.SIGINT, 130),
        (WorkerEnd.ABORTED, None, 143),
        (WorkerEnd.BROKEN, None, 70),
        (WorkerEnd.BROKEN, signal.SIGTERM, 70),
    ],
)
def test_drained_aborted_and_broken_are_told_apart(
    end: WorkerEnd, number: signal.Signals | None, code: int
) -> None:
    assert exit_code(end, number) == code
