"""How far a transfer has come, about once a second."""

from perago.adapters.memory.clock import VirtualClock
from perago.adapters.memory.progress import RecordingProgress
from perago.adapters.workspace.progress import TransferListener, TransferMeter
from perago.ports.workspace import Phase


def test_a_transfer_speaks_about_once_a_second() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    listener = TransferListener(progress, clock)
    meter = TransferMeter(listener, "down", files=100, size=1000, cached=7, skipped=3)
    for number in range(40):
        clock.advance(0.1)
        meter.moved(10, number % 2)
    assert [phase for phase, _ in progress.events] == [Phase.TRANSFERRING] * 4
    assert progress.events[0][1] == {
        "direction": "down",
        "files_total": 100,
        "bytes_total": 1000,
        "cached": 7,
        "skipped": 3,
        "files": 5,
        "requests": 10,
        "bytes": 100,
        "bytes_per_second": 100,
        "eta_seconds": 9.0,
    }


def test_a_transfer_that_spoke_tells_its_end() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    meter = TransferMeter(TransferListener(progress, clock), "up", files=2, size=20)
    clock.advance(2)
    meter.moved(10, 1)
    meter.moved(10, 1)
    assert [facts["bytes"] for _, facts in progress.events] == [10, 20]


def test_a_short_transfer_says_nothing() -> None:
    progress, clock = RecordingProgress(), VirtualClock()
    meter = TransferMeter(TransferListener(progress, clock), "up", files=1, size=10)
    meter.moved(10, 1)
    assert progress.events == []


def test_nobody_needs_to_listen() -> None:
    TransferMeter(None, "up", files=1, size=10).moved(10, 1)
