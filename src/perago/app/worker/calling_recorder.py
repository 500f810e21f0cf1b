"""The metric recorder of a body in a worker: samples are handed to whoever listens.

Knows labels of the attempt; where samples go is not known here.
"""

from collections.abc import Callable, Mapping
from typing import Self, final

from perago.app.authoring.metric_recorder import (
    MetricKind,
    MetricRecorder,
    TaskAttemptMetricContext,
)

TakeSample = Callable[[str, str, float, Mapping[str, str]], None]


@final
class CallingRecorder(MetricRecorder):
    """Hands each sample to a function: kind, name, value, labels."""

    def __init__(self, take: TakeSample, context: TaskAttemptMetricContext | None = None) -> None:
        self._take = take
        self._context = context

    @property
    def context(self) -> TaskAttemptMetricContext | None:
        """The attempt this recorder is bound to."""
        return self._context

    def with_context(self, context: TaskAttemptMetricContext) -> Self:
        """The same, bound to one attempt."""
        return type(self)(self._take, context)

    def record(self, kind: MetricKind, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Hand over one sample."""
        self._take(kind.value, name, value, labels)
