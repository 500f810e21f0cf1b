"""A recorder that keeps its samples in lists, for tests of task bodies.

Exports nothing to anywhere; the samples are what a real recorder would have been given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from perago.app.authoring.metric_recorder import (
    MetricKind,
    MetricRecorder,
    TaskAttemptMetricContext,
)


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
