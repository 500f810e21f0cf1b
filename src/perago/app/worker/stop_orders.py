"""Orders to end an attempt's long waits: by its execution, or all of them, before or in its body.

Remembers who was told; how a body is ended is decided where it runs.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar, final

from perago.app.attempt.stop_order import StopOrder
from perago.app.worker.first_of import first_of
from perago.domain.attempt import ExecutionId
from perago.ports.task_body import BodyStopped

Answer = TypeVar("Answer")
Order: TypeAlias = "asyncio.Future[str]"


@final
class StopOrders:
    """One future per execution that is under way; its result is the reason of the order."""

    def __init__(self) -> None:
        self._open: dict[ExecutionId, Order] = {}
        self._for_all: str | None = None

    @contextmanager
    def for_execution(self, execution_id: ExecutionId) -> Generator[Order]:
        """The order of one execution, for as long as the outermost block of it lasts."""
        if (known := self._open.get(execution_id)) is not None:
            yield known
            return
        order: Order = asyncio.get_running_loop().create_future()
        if self._for_all is not None:
            order.set_result(self._for_all)
        self._open[execution_id] = order
        try:
            yield order
        finally:
            del self._open[execution_id]

    def stop(self, execution_id: ExecutionId, reason: str) -> None:
        """End one; an execution that is not under way is left alone."""
        order = self._open.get(execution_id)
        if order is not None and not order.done():
            order.set_result(reason)

    def stop_all(self, reason: str) -> None:
        """End all, and whatever would start from now on."""
        self._for_all = reason
        for execution_id in list(self._open):
            self.stop(execution_id, reason)


@final
class WaitingOrder(StopOrder):
    """The order of one execution, for the steps before its body."""

    def __init__(self, order: Order) -> None:
        self._order = order

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """What came first."""
        answer = asyncio.ensure_future(work)
        try:
            await first_of(answer, self._order)
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])
        if answer.cancelled():
            return BodyStopped(self._order.result())
        return answer.result()
