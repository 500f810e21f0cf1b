"""Orders to end a body: by its execution, or all of them, before or while it runs.

Remembers who was told; how a body is ended is decided where it runs.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias, final

from perago.domain.attempt import ExecutionId

Order: TypeAlias = "asyncio.Future[str]"


@final
class StopOrders:
    """One future per running execution; its result is the reason of the order."""

    def __init__(self) -> None:
        self._open: dict[ExecutionId, Order] = {}
        self._ahead: dict[ExecutionId, str] = {}
        self._for_all: str | None = None

    @contextmanager
    def for_execution(self, execution_id: ExecutionId) -> Generator[Order]:
        """The order of one execution, for as long as it runs."""
        order: Order = asyncio.get_running_loop().create_future()
        reason = self._ahead.get(execution_id, self._for_all)
        if reason is not None:
            order.set_result(reason)
        self._open[execution_id] = order
        try:
            yield order
        finally:
            del self._open[execution_id]

    def stop(self, execution_id: ExecutionId, reason: str) -> None:
        """End one, now or as soon as it begins."""
        order = self._open.get(execution_id)
        if order is None:
            self._ahead[execution_id] = reason
        elif not order.done():
            order.set_result(reason)

    def forget(self, execution_id: ExecutionId) -> None:
        """It will not begin any more."""
        self._ahead.pop(execution_id, None)

    def stop_all(self, reason: str) -> None:
        """End all, and whatever would start from now on."""
        self._for_all = reason
        for execution_id in list(self._open):
            self.stop(execution_id, reason)
