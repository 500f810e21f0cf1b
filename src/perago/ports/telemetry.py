"""Spans and samples that leave the worker, and the count of an attempt's requests."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """One step of a span, over already; times are seconds since 1970."""

    name: str
    began: float
    ended: float
    facts: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """An attempt that is over: `parent` is the W3C trace context it was given, if any."""

    name: str
    began: float
    ended: float
    facts: Mapping[str, str | int | float | bool]
    steps: Sequence[FinishedStep] = ()
    parent: str | None = None
    error: str | None = None


class Telemetry(Protocol):
    """A collector of spans and samples; it never decides.

    Laws (tests/contract/test_telemetry.py has one test for each, by name):

    E1 never_raises: labels and facts of any text are taken, after the end as well.
    E2 span_belongs_to_its_parent: a trace context that was given is the span's trace and parent.
    E3 steps_lie_in_their_span: each step is a child of its span, at its own times.
    E4 samples_are_kept_apart_by_labels: counters add up, gauges stay as they were set last, and
       distributions know sum and number.
    """

    def span(self, span: FinishedSpan) -> None:
        """Take one span with its steps."""
        ...

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add one sample to a distribution."""
        ...

    def close(self) -> None:
        """Hand over what is left; blocks, though not for long."""
        ...


@dataclass(slots=True)
class RequestCount:
    """The requests of one attempt so far, its heartbeats included."""

    sent: int = 0


# A context variable, because clients are shared by attempts: a request belongs to the attempt in
# whose context it is sent.
_count: ContextVar[RequestCount | None] = ContextVar("perago_requests", default=None)


def count_requests() -> RequestCount:
    """Begin to count in this context and in those that it starts."""
    count = RequestCount()
    _count.set(count)
    return count


def request_sent() -> None:
    """Count one request for the attempt of this context; clients call it before they send."""
    count = _count.get()
    if count is not None:
        count.sent += 1
