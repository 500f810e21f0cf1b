"""What bodies in threads say is told with their attempt, as an executor's is."""

import asyncio
import logging
import sys
from dataclasses import dataclass, field

import pytest
from tests.contract.body_tasks import OBEY
from tests.contract.task_bodies import call_of

from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.thread_body import ThreadBody
from perago.ports.task_body import BodyCall


@dataclass
class Ears(BodyObserver):
    """Keeps what was said, by whom."""

    heard: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """Keep it."""
        assert call is not None
        self.heard.append((call.execution_id, stream, line))

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """Keep it."""
        assert call is not None
        self.heard.append((call.execution_id, f"{logger} {level}", text))


@pytest.fixture
def ears() -> Ears:
    return Ears()


async def test_two_bodies_are_told_apart_and_other_threads_print_as_before(
    ears: Ears, capsys: pytest.CaptureFixture[str]
) -> None:
    body = ThreadBody({OBEY.name: OBEY}, observer=ears, slots=2)
    await body.start()
    calls = [call_of("talk", number, execution_id=f"e{number}") for number in (1, 2)]
    await asyncio.gather(*map(body.run, calls))
    sys.stdout.write("the worker itself\n")
    await body.close()
    for number in (1, 2):
        mine = [said[1:] for said in ears.heard if said[0] == f"e{number}"]
        assert mine == [
            ("stdout", "printed"),
            (f"team {logging.WARNING}", f"logged {number}"),
            ("stdout", "without an end"),
        ]
    assert capsys.readouterr().out == "the worker itself\n"


async def test_after_the_end_the_streams_are_what_they_were(ears: Ears) -> None:
    before = sys.stdout, sys.stderr
    threads = ThreadBody({OBEY.name: OBEY}, observer=ears)
    await threads.start()
    assert (sys.stdout, sys.stderr) != before
    await threads.close()
    assert (sys.stdout, sys.stderr) == before
