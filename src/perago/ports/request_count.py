"""How many requests the work of one context has sent: clients count, whoever began it reads.

A context is an attempt's task and what it starts; a count nobody began is nobody's.
"""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class RequestCount:
    """The requests of one attempt so far, its heartbeats included."""

    sent: int = 0


_count: ContextVar[RequestCount | None] = ContextVar("perago_requests", default=None)


def count_requests() -> RequestCount:
    """Begin to count in this context and in those that it starts."""
    count = RequestCount()
    _count.set(count)
    return count


def request_sent() -> None:
    """A client is about to send one."""
    count = _count.get()
    if count is not None:
        count.sent += 1
