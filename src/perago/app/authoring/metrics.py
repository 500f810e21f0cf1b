"""What a task function writes its own metrics with, and the runtime its own.

Knows names and labels; where samples go is decided by the class that implements `record`.
"""

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Self

logger = logging.getLogger(__name__)

# Ten thousand series may be kept for as long as a worker lives, so that no text may be endless.
LABEL_CHARACTERS_MAX = 1000
RESERVED_LABELS = frozenset({"task_id", "workflow_instance_id", "execution_id", "worker_id"})


@dataclass(frozen=True)
class TaskAttemptMetricContext:
    """The attempt a recorder is bound to; only the task name becomes a label."""

    task_name: str
    task_id: str
    workflow_instance_id: str
    execution_id: str
    worker_id: str
    retry_count: int


@dataclass(frozen=True)
class RuntimeMetricContext:
    """What the runtime's own samples are about."""

    task_name: str
    perago_instance_id: str | None = None


class MetricKind(Enum):
    """How samples of one name are to be read; a timer is a histogram of seconds."""

    HISTOGRAM = "histogram"
    GAUGE = "gauge"


def _merged(
    metric_name: str, own: dict[str, str], labels: Mapping[str, str] | None
) -> dict[str, str]:
    """Add labels of others to ours; ours win and a warning is logged."""
    merged = dict(own)
    for key, value in (labels or {}).items():
        if key in own or key in RESERVED_LABELS:
            logger.warning(
                "metric_name=%s label_key=%s perago_label_value=%s ignored_user_label_value=%s",
                metric_name,
                key,
                own.get(key, "<reserved>"),
                value,
            )
        else:
            merged[key] = value
    return merged


def sendable_text(value: object) -> str:
    """Any value as a text that JSON and UTF-8 can carry; half a character becomes `?`."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


class MetricRecorder(ABC):
    """The recorder that a task function with metrics gets as its `metrics` parameter.

    A sample never fails the function that records it, wherever that runs. Labels become texts; a
    sample that has no finite number, or cannot be sent, is dropped with a warning in the log.
    """

    @property
    @abstractmethod
    def context(self) -> TaskAttemptMetricContext | None:
        """The attempt this recorder is bound to, or None."""

    @abstractmethod
    def with_context(self, context: TaskAttemptMetricContext) -> Self:
        """Return a recorder with the same destination, bound to one attempt."""

    @abstractmethod
    def record(self, kind: MetricKind, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Take one sample; name and labels are complete."""

    def histogram(
        self, name: str, value: float, *, labels: Mapping[str, str] | None = None
    ) -> None:
        """Record one value of a distribution."""
        self._record_application(MetricKind.HISTOGRAM, name, value, labels)

    def gauge(self, name: str, value: float, *, labels: Mapping[str, str] | None = None) -> None:
        """Record the present value of something."""
        self._record_application(MetricKind.GAUGE, name, value, labels)

    @contextmanager
    def timer(self, name: str, *, labels: Mapping[str, str] | None = None) -> Generator[None]:
        """Record how many seconds the block took, however it ended."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.histogram(name, time.perf_counter() - started, labels=labels)

    def runtime_histogram(
        self,
        name: str,
        value: float,
        *,
        context: RuntimeMetricContext,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Record one value of a distribution of the runtime."""
        self._record_runtime(MetricKind.HISTOGRAM, name, value, context, labels)

    def runtime_gauge(
        self,
        name: str,
        value: float,
        *,
        context: RuntimeMetricContext,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Record the present value of something in the runtime."""
        self._record_runtime(MetricKind.GAUGE, name, value, context, labels)

    @contextmanager
    def runtime_timer(
        self,
        name: str,
        *,
        context: RuntimeMetricContext,
        labels: Mapping[str, str] | None = None,
    ) -> Generator[None]:
        """Record how many seconds a block of the runtime took."""
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            self.runtime_histogram(name, seconds, context=context, labels=labels)

    def _record_runtime(
        self,
        kind: MetricKind,
        name: str,
        value: float,
        context: RuntimeMetricContext,
        labels: Mapping[str, str] | None,
    ) -> None:
        full_name, own = f"runtime.{name}", {"task_name": context.task_name}
        if context.perago_instance_id is not None:
            own["perago_instance_id"] = context.perago_instance_id
        self.record(kind, full_name, value, _merged(full_name, own, labels))

    def _record_application(
        self, kind: MetricKind, name: str, value: float, labels: Mapping[str, str] | None
    ) -> None:
        context = self.context
        if context is None:
            message = "MetricRecorder context is not bound"
            raise RuntimeError(message)
        full_name = "app.?"
        try:
            full_name = f"app.{sendable_text(name)}"
            number = float(value)
            if math.isfinite(number):
                merged = _merged(full_name, {"task_name": context.task_name}, _texts(labels))
                self.record(kind, full_name, number, merged)
                return
            found = str(number)
        except Exception as error:  # noqa: BLE001 - of values that a task function hands over
            found = type(error).__name__
        text = "metric sample dropped: %s; expected a finite number and labels as texts, found %s"
        logger.warning(text, full_name, found)


def _texts(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Labels as texts, though an author may count with numbers: `{"shard": 3}`."""
    return {
        sendable_text(name)[:LABEL_CHARACTERS_MAX]: sendable_text(value)[:LABEL_CHARACTERS_MAX]
        for name, value in (labels or {}).items()
    }


@dataclass(frozen=True)
class RecordedMetricSample:
    """One sample with its complete name and labels."""

    name: str
    value: float
    labels: dict[str, str]


class InMemoryMetricRecorder(MetricRecorder):
    """Keeps what was recorded; bound copies share the lists."""

    def __init__(
        self,
        *,
        context: TaskAttemptMetricContext | None = None,
        histograms: list[RecordedMetricSample] | None = None,
        gauges: list[RecordedMetricSample] | None = None,
    ) -> None:
        self._context = context
        self.histograms = [] if histograms is None else histograms
        self.gauges = [] if gauges is None else gauges

    @property
    def context(self) -> TaskAttemptMetricContext | None:
        """The attempt this recorder is bound to, or None."""
        return self._context

    def with_context(self, context: TaskAttemptMetricContext) -> Self:
        """Return a recorder that writes to the same lists, bound to one attempt."""
        return type(self)(context=context, histograms=self.histograms, gauges=self.gauges)

    def record(self, kind: MetricKind, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep one sample."""
        samples = self.gauges if kind is MetricKind.GAUGE else self.histograms
        samples.append(RecordedMetricSample(name, value, dict(labels)))
