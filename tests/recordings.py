"""What an attempt says of itself, as it was said: phases, spans and samples, events of data."""

from collections.abc import Mapping
from typing import TypeAlias, final

from perago.ports.telemetry import DataEvent, DataEvents, FinishedSpan, Telemetry
from perago.ports.workspace import Phase, Progress


@final
class RecordingProgress(Progress):
    """Keeps every phase with its facts, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Phase, Mapping[str, object]]] = []

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Keep it."""
        self.events.append((phase, facts))


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
        """Keep it."""
        self.spans.append(span)

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add up."""
        series = _series(name, labels)
        self.counters[series] = self.counters.get(series, 0) + by

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Keep the last one."""
        self.gauges[_series(name, labels)] = value

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Keep it."""
        self.samples.setdefault(_series(name, labels), []).append(value)

    def close(self) -> None:
        """Nothing is left."""


@final
class RememberedDataEvents(DataEvents):
    """Events in order."""

    def __init__(self) -> None:
        self.events: list[DataEvent] = []

    def send(self, event: DataEvent) -> None:
        """Keep it."""
        self.events.append(event)

    def close(self) -> None:
        """Nothing is left."""


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, tuple(sorted(labels.items()))
