"""Spark bodies where workers run them: one JVM an executor, gone with it; jobs that are stopped."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.spark_bodies import WORK, call_of

from perago.adapters.system import SystemClock
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.process_body import ProcessBody
from perago.app.worker.thread_body import ThreadBody
from perago.domain.attempt import ExecutionId
from perago.ports.task_body import BodyCall, BodyReturned, BodyStopped

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
JVM_ENDS_SECONDS = 20
TOLD_SECONDS = 30  # every five, when the machine has time


@dataclass
class Recorder(BodyObserver):
    """Keeps what was said of progress."""

    told: list[tuple[str, Mapping[str, object]]] = field(
        default_factory=list[tuple[str, Mapping[str, object]]]
    )

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Keep it."""
        del call
        self.told.append((message, facts))


async def test_one_jvm_serves_an_executor_and_dies_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PERAGO_SPARK_MASTER": "local[1]"}
    environment["PERAGO_SPARK_CONF_spark_driver_bindAddress"] = "127.0.0.1"
    environment["PERAGO_SPARK_CONF_spark_driver_host"] = "127.0.0.1"
    program = ExecutorProgram(("tests.spark_bodies",), environment)
    body = ProcessBody(program, SystemClock())
    try:
        await body.start()
        outcomes = [
            await body.run(call_of(tmp_path, "e1", hang=False)),
            await body.run(call_of(tmp_path, "e2", hang=False)),
        ]
        stopped = await body.run(replace(call_of(tmp_path, "e3", hang=True), seconds_max=5.0))
        jvms = [told(tmp_path / name) for name in ("e1", "e2", "e3")]
        await gone(jvms[2])
    finally:
        await body.close()

    assert outcomes == [BodyReturned({"rows": 5})] * 2
    assert isinstance(stopped, BodyStopped)
    assert len(set(jvms)) == 1


async def test_a_stopped_task_function_has_reported_its_progress_and_loses_its_jobs(
    spark_session: Any,  # noqa: ANN401 - a pyspark session
    tmp_path: Path,
) -> None:
    recorder, tracker = Recorder(), spark_session.sparkContext.statusTracker()
    body = ThreadBody({WORK.name: WORK}, observer=recorder)
    running = asyncio.create_task(body.run(call_of(tmp_path, "e4", hang=True)))
    for _ in range(TOLD_SECONDS * 10):
        if recorder.told:
            break
        await asyncio.sleep(0.1)
    body.orders.stop(ExecutionId("e4"), "the attempt was revoked")
    outcome = await running
    for _ in range(JVM_ENDS_SECONDS * 10):
        if not tracker.getActiveJobsIds():
            break
        await asyncio.sleep(0.1)

    assert outcome == BodyStopped("the attempt was revoked")
    facts = {"jobs": 1, "tasks": 1, "tasks_done": 0, "tasks_failed": 0}
    assert recorder.told[:1] == [("spark", facts)]
    assert list(tracker.getActiveJobsIds()) == []


def told(place: Path) -> int:
    """The process a body told."""
    return int(place.read_text())


async def gone(process: int) -> None:
    """Wait until a process is no more."""
    for _ in range(JVM_ENDS_SECONDS * 10):
        if not is_running(process):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"process {process} is still there")


def is_running(process: int) -> bool:
    """Whether a process runs; one that waits for its parent to notice does not."""
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
