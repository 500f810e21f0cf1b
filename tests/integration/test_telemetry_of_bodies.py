"""What bodies tell of themselves: the same in a thread, in an executor, and in the test kit."""

import asyncio
from collections.abc import Mapping
from typing import final

from tests.contract.body_tasks import OBEY
from tests.contract.task_bodies import TELEMETRY, call_of, process_body, thread_body

from perago.app.telemetry.listeners import BodyObserver
from perago.ports.task_body import BodyCall, BodyOutcome, BodyReturned, TaskBody
from perago.testing.embedded_workers import run_captured


@final
class Recorder(BodyObserver):
    """Keeps samples and progress, but not endless ones."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Keep it."""
        self.heard.append((call.execution_id, metric, name, value, dict(labels)))

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep it."""
        if len(message) < 1000:
            self.heard.append((call.execution_id, message, dict(facts)))


@final
class KitBody(TaskBody):
    """Bodies as `perago run` and the kit run them."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one to its end."""
        outcome, _ = await asyncio.to_thread(run_captured, OBEY, call)
        return outcome


async def tell_everything(body: TaskBody) -> None:
    for what in TELEMETRY:
        call = call_of(f"tell {what}", 7, execution_id=what)
        assert await body.run(call) == BodyReturned({"number": 7}), what


async def test_the_same_samples_and_lines_arrive_from_a_thread_and_from_an_executor() -> None:
    in_thread, in_process = Recorder(), Recorder()
    observers: list[BodyObserver] = [in_thread, in_process]
    async with thread_body(observers[0]) as threads, process_body(observers[1]) as processes:
        await tell_everything(threads)
        await tell_everything(processes)
    assert in_thread.heard == in_process.heard
    labels = {"task_name": "body.suite", "shard": "3", "7": "None"}
    assert ("labels that are numbers", "gauge", "app.rows", 1.0, labels) in in_process.heard
    facts = {"rows": 3, "model": "(1, 2)"}
    assert ("progress that is no text", "5", facts) in in_process.heard


async def test_telemetry_ends_no_body_in_the_kit() -> None:
    await tell_everything(KitBody())
