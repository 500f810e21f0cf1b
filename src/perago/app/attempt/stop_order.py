"""An order to stop that may come while an attempt waits for long work before its body."""

from collections.abc import Awaitable
from typing import Protocol, TypeVar, final

from perago.ports.task_body import BodyStopped

Answer = TypeVar("Answer")


class StopOrder(Protocol):
    """The order for one attempt: a drain is over its grace, or the attempt no longer counts."""

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """Wait for work; when the order comes first, the work is cancelled and awaited."""
        ...


@final
class NoStopOrder(StopOrder):
    """For attempts that nobody stops."""

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """The answer."""
        return await work
