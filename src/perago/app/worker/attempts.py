"""The attempts of a worker that are under way: begun, kept alive, told to stop, waited for.

Each runs as a task of the loop. What an attempt does is `app.attempt`'s; when to poll is not
known here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import final

from perago.app.attempt.check_attempt import read_verdict
from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.run_attempt import run_attempt
from perago.app.attempt.world import AttemptSettings, World
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.telemetry.attempt_story import AttemptStory
from perago.app.telemetry.listeners import AttemptListener
from perago.app.worker.bodies import Bodies
from perago.app.worker.heartbeat import Heartbeat, HeartbeatLease
from perago.app.worker.slot_budget import SlotBudget
from perago.app.worker.slot_lease import SlotLease
from perago.app.worker.stop_orders import Order, WaitingOrder
from perago.domain.attempt import AttemptRecord
from perago.domain.attempt_fence import Stale
from perago.domain.authoring_errors import GuardrailViolation
from perago.domain.errors import BodyFailedError
from perago.domain.publish_budget import heartbeat_seconds
from perago.domain.traceparent import traceparent_of
from perago.ports.errors import WorldError

# Errors that an attempt meets by itself only after lakeFS has handed out its workspace.
SERVED = (BodyFailedError, GuardrailViolation)
TASK_LOG_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class AttemptTools:
    """What attempts of a worker share."""

    world: World
    bodies: Bodies
    tasks: Mapping[str, TaskDefinition]
    settings: AttemptSettings
    listener: AttemptListener
    budget: SlotBudget
    admitted: Callable[[Dispatch, SlotLease, Order], Awaitable[None]]
    failed: Callable[[Dispatch, Exception], None]
    ended: Callable[[Dispatch, bool], None]
    broken: Callable[[BaseException], None]


@final
class Attempts:
    """Everything that is under way."""

    def __init__(self, tools: AttemptTools) -> None:
        self._tools = tools
        self._running: dict[asyncio.Task[None], Dispatch] = {}
        self._aside: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> list[Dispatch]:
        """Dispatches that have not ended."""
        return list(self._running.values())

    def begin(self, record: AttemptRecord) -> None:
        """Start one polled attempt; its slot is taken already."""
        tools = self._tools
        dispatch = Dispatch(
            task=tools.tasks[record.snapshot.task_type],
            record=record,
            execution_id=tools.world.identities.new_execution_id(),
            settings=tools.settings,
            traceparent=traceparent_of(record.input_data),
        )
        task = asyncio.create_task(self._run(dispatch), name=f"attempt-{dispatch.execution_id}")
        self._running[task] = dispatch
        task.add_done_callback(self._done)

    async def all_ended(self, *, seconds_max: float | None = None) -> bool:
        """Wait for all of them; whether they ended in time."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds_max)
        return not self._running

    async def nothing_aside(self) -> None:
        """Wait for the last lines of the task logs."""
        if self._aside:
            await asyncio.wait(self._aside, timeout=TASK_LOG_SECONDS_MAX)

    async def _run(self, dispatch: Dispatch) -> None:
        tools = self._tools
        polled_at = tools.world.clock.monotonic()
        # Begun before the heartbeats, because it counts their requests as well.
        story = AttemptStory(dispatch, tools.listener, tools.world.clock)
        lease = HeartbeatLease(self._heartbeat(dispatch), tools.world.clock).start()
        slot = SlotLease(lease, tools.budget)
        try:
            with tools.bodies.orders.for_execution(dispatch.execution_id) as order:
                world = replace(tools.world, progress=story, stop_order=WaitingOrder(order))
                await tools.admitted(dispatch, slot, order)
                report = await run_attempt(
                    world,
                    dispatch,
                    slot,
                    polled_at=polled_at,
                    failed=lambda error: tools.failed(dispatch, error),
                )
        finally:
            await slot.end()
        # An attempt that was told to stop may have asked lakeFS for nothing.
        served = report.error is None or isinstance(report.error, SERVED)
        tools.ended(dispatch, served and not order.done())
        story.ended(report)
        if story.task_log_line:
            self._log_aside(dispatch.attempt.task_id, story.task_log_line)

    def _heartbeat(self, dispatch: Dispatch) -> Heartbeat:
        tools, attempt = self._tools, dispatch.attempt

        def lost(stale: Stale) -> None:
            tools.listener.lost(dispatch, stale)
            tools.bodies.orders.stop(dispatch.execution_id, f"the attempt is lost: {stale}")

        return Heartbeat(
            send=lambda: tools.world.queue.extend_lease(attempt, tools.settings.worker_id),
            look=lambda: read_verdict(tools.world, dispatch),
            lost=lost,
            pause_seconds=heartbeat_seconds(
                dispatch.record.response_timeout_seconds, dispatch.budget
            ),
        )

    def _log_aside(self, task_id: str, line: str) -> None:
        """Into the task's log in Conductor, while the next attempt runs."""
        line = self._tools.settings.secrets.masked(line)

        async def log() -> None:
            try:
                await self._tools.world.queue.log(task_id, line)
            except WorldError as error:
                self._tools.listener.warned("task log line was not taken", str(error))

        task = asyncio.create_task(log())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tools.broken(error)
