"""Spark bodies in executor processes: one JVM for all of them, none after a killed one."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark_bodies import WORK

from perago.adapters.system.clock import SystemClock
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.process_body import ProcessBody, ProcessBodySettings
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.references import CommitId, RepositoryId
from perago.ports.spark_workspace import SparkPlace
from perago.ports.task_body import BodyCall, BodyReturned, BodyStopped

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
JVM_ENDS_SECONDS = 20


def call_of(root: Path, execution: str, *, hang: bool) -> BodyCall:
    """One call on local files."""
    attempt = AttemptSnapshot("w1", "t1", "work_ref", WORK.name, AttemptStatus.IN_PROGRESS)
    place = SparkPlace(
        repository=RepositoryId("repo"),
        input_ref=CommitId("input"),
        prefix="lake",
        input_root=f"file://{root}/input/",
        output_root=f"file://{root}/output/",
    )
    params = {"hang": hang, "tell": str(root / execution)}
    call = BodyCall(WORK.name, attempt, ExecutionId(execution), params, workspace=None)
    return replace(call, spark=place)


async def test_one_jvm_serves_an_executor_and_dies_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PERAGO_SPARK_MASTER": "local[1]"}
    environment["PERAGO_SPARK_CONF_spark_driver_bindAddress"] = "127.0.0.1"
    environment["PERAGO_SPARK_CONF_spark_driver_host"] = "127.0.0.1"
    program = ExecutorProgram(("tests.spark_bodies:WORK",), environment)
    body = ProcessBody(ProcessBodySettings(program), SystemClock())
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
