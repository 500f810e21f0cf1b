"""Telemetry that remembers what it was told, for tests.

Sends nothing anywhere.
"""

from collections.abc import Mapping
from typing import TypeAlias, final

from perago.ports.telemetry import FinishedSpan, Telemetry

Series: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


@final
class RememberedTelemetry(Telemetry):
    """Spans in order, samples by name and labels."""

    def __init__(self) -> None:
        self.spans: list[FinishedSpan] = []
        self.counters: dict[Series, float] = {}
        self.gauges: dict[Series, float] = {}
        self.samples: dict[Series, list[float]] = {}

    def span(self, span: FinishedSpan) -> None:
        """Remember it."""
        self.spans.append(span)

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add it."""
        series = _series(name, labels)
        self.counters[series] = self.counters.get(series, 0) + by

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Replace it."""
        self.gauges[_series(name, labels)] = value

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Remember it."""
        self.samples.setdefault(_series(name, labels), []).append(value)

    def close(self) -> None:
        """Nothing is left."""


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, tuple(sorted(labels.items()))
