"""Spans, samples and events of data that leave the worker, and the count of requests."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

# From the shortest attempt without a workspace to task functions of hours. Prometheus' own default
# ends at 10 s, where a transfer is only beginning.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
# From 1 KiB to 256 GiB in steps of 4: 15 lines a series, as `BUCKETS` has 16.
BYTE_BUCKETS = tuple(float(4**power) for power in range(5, 20))


def buckets_of(name: str) -> tuple[float, ...]:
    """The edges between which samples of a metric are counted, by what its name says it counts."""
    return BYTE_BUCKETS if name.endswith("_bytes") else BUCKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSignals:
    """What is sent; of metrics, what is not left to the standard variables."""

    traces: bool = False
    metrics: bool = False
    metrics_endpoint: str | None = None
    metrics_gzip: bool = False
    metrics_timeout_seconds: float | None = None
    metrics_interval_millis: float | None = None

    @property
    def any(self) -> bool:
        """Whether anything is sent at all."""
        return self.traces or self.metrics


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


class DataEventKind(StrEnum):
    """What happened to an attempt; the values are the words of OpenLineage."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class DataVersion:
    """What lies below a prefix of a branch at one commit."""

    repository: str
    branch: str
    commit: str
    prefix: str

    @property
    def path(self) -> str:
        """Branch and prefix: what stays the same from commit to commit."""
        return f"{self.branch}/{self.prefix}".rstrip("/")

    @property
    def uri(self) -> str:
        """The address with the commit."""
        return f"lakefs://{self.repository}/{self.branch}@{self.commit}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataEvent:
    """An attempt began or ended, and which data it read and published."""

    kind: DataEventKind
    at: datetime
    execution_id: str
    task_name: str
    workflow_id: str
    inputs: Sequence[DataVersion] = ()
    outputs: Sequence[DataVersion] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    error: str | None = None


class DataEvents(Protocol):
    """A catalogue of data that is told what attempts read and publish; it never decides.

    Laws (tests/contract/test_data_events.py has one test for each, by name):

    J1 never_raises: texts of any kind are taken, after the end as well.
    J2 order_is_kept: events arrive in the order in which they were sent.
    J3 close_hands_over: what was sent before the end has arrived after it.
    """

    def send(self, event: DataEvent) -> None:
        """Take one event; never waits for a network."""
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
