"""The slots that task functions run in, as the worker sees them, and the orders that end them.

`Bodies` is implemented with executors (`process_body`) and with threads (`thread_body`).
`SlotBudget` counts how many tasks may be polled: one for each slot that is ready and not taken; who
asks first is served first. `StopOrders` ends one execution or all of them. `UploadingBody` uploads
the checkpoints of a call while its function goes on. `first_of` waits for the first of several
futures and cancels none, `work_until` gives work up when another comes first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar, final

from perago.app.attempt.patience import StopOrder
from perago.domain.attempt import ExecutionId
from perago.domain.hand_back import Cause
from perago.ports import task_body

LOGGER = logging.getLogger("perago.worker")
Answer = TypeVar("Answer")
Order: TypeAlias = "asyncio.Future[task_body.BodyStopped]"
Waited: TypeAlias = "asyncio.Future[Any]"


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """One slot as an operator sees it."""

    slot: int
    pid: int | None
    execution_id: str | None
    task_name: str | None


class Bodies(task_body.TaskBody, Protocol):
    """Runs bodies in slots; `start` first, `close` last. `orders` end what runs or is about to."""

    orders: "StopOrders"

    @property
    def ready(self) -> int:
        """How many bodies can run at once, now."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Tell when `ready` may have changed."""
        ...

    def facts(self) -> Sequence[SlotFacts]:
        """Every slot as it is now."""
        ...

    async def start(self) -> None:
        """Make every slot ready."""
        ...

    def dump_stacks(self) -> None:
        """Have every slot write where it is to the log."""
        ...

    async def close(self) -> None:
        """End every slot."""
        ...


@final
class SlotBudget:
    """Counts what is taken against what is ready now."""

    def __init__(self, ready: Callable[[], int]) -> None:
        self._ready = ready
        self.taken = 0
        self.waiting = 0
        """Takers that wait for a slot."""
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """Slots that are free; never below zero."""
        return max(self._ready() - self.taken, 0)

    def take_free(self, most: int) -> int:
        """Take up to `most` slots now; none while others wait, who would be overtaken."""
        if self.waiting:
            return 0
        taken = min(most, self.free)
        self.taken += taken
        return taken

    async def take(self, most: int, *, unless: Callable[[], bool] = lambda: False) -> int:
        """Wait for a free slot, then take up to `most` of them; none once `unless` holds.

        `unless` is asked again only after `changed` or `give_back`.
        """
        self.waiting += 1
        try:
            async with self._turn:
                while self.free == 0:
                    if unless():
                        return 0
                    self._changed.clear()
                    await self._changed.wait()
                taken = min(most, self.free)
                self.taken += taken
                return taken
        finally:
            self.waiting -= 1

    def give_back(self, count: int) -> None:
        """Let slots go."""
        assert 0 <= count <= self.taken, f"{count} of {self.taken} slots cannot be given back"
        self.taken -= count
        self._changed.set()

    def changed(self) -> None:
        """Look again: the number of ready slots, or the answer of an `unless`, may be another."""
        self._changed.set()


@final
class StopOrders:
    """One future per execution that is under way; its result says why it was stopped."""

    def __init__(self) -> None:
        self._open: dict[ExecutionId, Order] = {}
        self._for_all: task_body.BodyStopped | None = None

    @contextmanager
    def for_execution(self, execution_id: ExecutionId) -> Generator[Order]:
        """The order of one execution, for as long as the outermost block of it lasts."""
        if (known := self._open.get(execution_id)) is not None:
            yield known  # the attempt and the body that runs for it wait for one order
            return
        order: Order = asyncio.get_running_loop().create_future()
        if self._for_all is not None:
            order.set_result(self._for_all)
        self._open[execution_id] = order
        try:
            yield order
        finally:
            del self._open[execution_id]

    def stop(self, execution_id: ExecutionId, reason: str, *, cause: Cause = Cause.FAILED) -> None:
        """End one; an execution that is not under way is left alone.

        The first order counts, because the attempt may have acted on it already.
        """
        order = self._open.get(execution_id)
        if order is not None and not order.done():
            order.set_result(task_body.BodyStopped(reason, cause))

    def stop_all(self, reason: str, *, cause: Cause = Cause.FAILED) -> None:
        """End all, and whatever would start from now on."""
        self._for_all = task_body.BodyStopped(reason, cause)
        for execution_id in list(self._open):
            self.stop(execution_id, reason, cause=cause)


@final
class WaitingOrder(StopOrder):
    """The order of one execution, for the steps before its body."""

    def __init__(self, order: Order) -> None:
        self._order = order

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | task_body.BodyStopped:
        """The answer of `work`, or BodyStopped when the order to stop came first."""
        answer = await work_until(work, self._order)
        return self._order.result() if answer.cancelled() else answer.result()


@final
class UploadingBody(task_body.TaskBody):
    """Runs calls elsewhere, and uploads what they keep."""

    def __init__(self, beneath: task_body.TaskBody, orders: StopOrders) -> None:
        self._beneath = beneath
        self._orders = orders

    async def run(self, call: task_body.BodyCall) -> task_body.BodyOutcome:
        """Run one call; its last upload has ended when it returns."""
        if call.checkpoints is None:
            return await self._beneath.run(call)
        with self._orders.for_execution(call.execution_id) as order:
            return await self._run(call, call.checkpoints, order)

    async def _run(
        self, call: task_body.BodyCall, checkpoints: task_body.Checkpoints, order: Order
    ) -> task_body.BodyOutcome:
        uploads = _Uploads(checkpoints.upload)
        given = replace(checkpoints, taken=uploads.wake)
        uploading = asyncio.create_task(uploads.run(), name="perago-checkpoint")
        try:
            outcome = await self._beneath.run(replace(call, checkpoints=given))
            if not isinstance(outcome, task_body.BodyReturned):
                # The next attempt goes on from the upload that is under way. A function that has
                # returned needs none, and an order to stop leaves no time for it.
                uploads.end()
                await first_of(uploading, order)
        finally:
            uploads.end()  # also when the upload under way ends well in spite of the next line
            uploading.cancel()
            await asyncio.wait([uploading])
        return outcome


@final
class _Uploads:
    """The uploads of one call."""

    def __init__(self, upload: Callable[[], Awaitable[None]]) -> None:
        self._upload = upload
        self._loop = asyncio.get_running_loop()
        self._waits = asyncio.Event()
        self._ended = False

    def wake(self) -> None:
        """A copy waits; said from any thread."""
        with suppress(RuntimeError):  # the loop is closed: a thread outlived the worker's end
            self._loop.call_soon_threadsafe(self._waits.set)

    def end(self) -> None:
        """Begin no more, though a thread that the function left behind may still take copies."""
        self._ended = True
        self._waits.set()

    async def run(self) -> None:
        """Upload the newest copy, as often as one waits."""
        while True:
            await self._waits.wait()
            if self._ended:
                return
            self._waits.clear()
            try:
                await self._upload()
            except Exception:  # the next copy may still be uploaded
                LOGGER.exception("a checkpoint was not uploaded")


async def work_until(work: Awaitable[Answer], *others: Waited) -> "asyncio.Future[Answer]":
    """Wait for some work, done or cancelled: it is given up when one of the others comes first."""
    doing = asyncio.ensure_future(work)
    try:
        await first_of(doing, *others)
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])
    return doing


async def first_of(*futures: Waited, seconds_max: float | None = None) -> None:
    """Return when one of them is done, or the time is over; nothing is cancelled."""
    # Before a callback is added: it would run in a later turn of the loop only.
    if any(future.done() for future in futures):
        return
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    def wake(_: object) -> None:
        if not first.done():
            first.set_result(None)

    late = None if seconds_max is None else loop.call_later(seconds_max, wake, None)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await first
    finally:
        for future in futures:
            future.remove_done_callback(wake)
        if late is not None:
            late.cancel()
