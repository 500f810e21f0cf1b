"""The registry of task bodies: in threads of this process, and in an executor."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.contract.body_tasks import CHECKED, OBEY

from perago.adapters.system import SystemClock
from perago.app.telemetry.listeners import BodyObserver
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.process_body import ProcessBody
from perago.app.worker.thread_body import ThreadBody
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.task_body import BodyCall, StagedChanges, TaskBody

MODULES = ("tests.contract.body_tasks",)


def body_environment() -> dict[str, str]:
    """The environment of an executor that has to find this test package."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@asynccontextmanager
async def process_body(
    observer: BodyObserver | None = None, *, slots: int = 1
) -> AsyncGenerator[ProcessBody]:
    """Executors of the suite's tasks."""
    program = ExecutorProgram(MODULES, body_environment())
    body = ProcessBody(program, SystemClock(), observer=observer, slots=slots)
    try:
        await body.start()
        yield body
    finally:
        await body.close()


@asynccontextmanager
async def thread_body(observer: BodyObserver | None = None) -> AsyncGenerator[ThreadBody]:
    """Threads that run the suite's tasks; none goes on beside the next test, and in its attempt."""
    try:
        yield ThreadBody({OBEY.name: OBEY, CHECKED.name: CHECKED}, observer=observer)
    finally:
        await abandoned_bodies_ended()


async def abandoned_bodies_ended() -> None:
    """Wait for bodies that were abandoned, because a thread cannot be ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("perago-"):
            await asyncio.to_thread(thread.join, 10)


BODIES: Mapping[str, Callable[[], AbstractAsyncContextManager[TaskBody]]] = {
    "thread": thread_body,
    "process": process_body,
}
TELEMETRY = (
    "sample of nan",
    "sample of no number",
    "labels that are numbers",
    "labels that are no mapping",
    "labels that raise",
    "a huge label",
    "progress that is no text",
    "progress that raises",
    "huge progress",
    "a record made by hand",
    "half a character",
)


def call_of(
    what: str, number: int = 0, *, seconds_max: float = 0.0, execution_id: str = "e1"
) -> BodyCall:
    """One call of the suite's task."""
    attempt = AttemptSnapshot("w1", "t1", "obey_ref", OBEY.name, AttemptStatus.IN_PROGRESS)
    return BodyCall(
        task_name=OBEY.name,
        attempt=attempt,
        execution_id=ExecutionId(execution_id),
        params={"what": what, "number": number},
        workspace=None,
        seconds_max=seconds_max,
    )


def checks_of(workspace: Path, order: str, *, seconds_max: float = 0.0) -> BodyCall:
    """A call of the checks of the suite's other task, on a staged commit that has this order."""
    (workspace / "kept.txt").write_text("kept")
    (workspace / "order.txt").write_text(order)
    return replace(
        call_of("check", seconds_max=seconds_max),
        task_name=CHECKED.name,
        params={},
        workspace=workspace,
        staged=StagedChanges("/", added=("order.txt",)),
    )
