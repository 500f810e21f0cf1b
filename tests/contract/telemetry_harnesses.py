"""Collectors of spans and samples for the laws of perago.ports.telemetry, readable afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    InMemoryMetricReader,
    Sum,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.recordings import RememberedTelemetry

from perago.adapters.observability.otlp import OtlpTelemetry
from perago.ports.telemetry import Telemetry

SERVICE = {"service.name": "perago-worker", "service.instance.id": "worker-1"}
Series = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span or a step, as the collector has it."""

    name: str
    trace: str | None
    parent: str | None
    began: float
    ended: float


class Harness(Protocol):
    """One collector, and what it has."""

    @property
    def telemetry(self) -> Telemetry:
        """The adapter."""
        ...

    def spans(self) -> list[SeenSpan]:
        """Steps first, then their span; a step's parent is the span's name."""
        ...

    def numbers(self) -> dict[Series, float | tuple[float, int]]:
        """Counters and gauges as they stand, distributions as sum and number."""
        ...


class MemoryHarness:
    """The memory of a test."""

    def __init__(self) -> None:
        self.telemetry = RememberedTelemetry()

    def spans(self) -> list[SeenSpan]:
        """As they were told."""
        seen: list[SeenSpan] = []
        for span in self.telemetry.spans:
            trace, parent = (None, None) if span.parent is None else span.parent.split("-")[1:3]
            seen += [
                SeenSpan(step.name, trace, span.name, step.began, step.ended) for step in span.steps
            ]
            seen.append(SeenSpan(span.name, trace, parent, span.began, span.ended))
        return seen

    def numbers(self) -> dict[Series, float | tuple[float, int]]:
        """As they were told."""
        told = self.telemetry
        spread = {series: (sum(each), len(each)) for series, each in told.samples.items()}
        return {**told.counters, **told.gauges, **spread}


class OpenTelemetryHarness:
    """OpenTelemetry's own classes, with exporters that keep everything in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.telemetry = OtlpTelemetry(SERVICE, SimpleSpanProcessor(self._exporter), self._reader)

    def spans(self) -> list[SeenSpan]:
        """As they were exported."""
        exported = self._exporter.get_finished_spans()
        names = {_id(span): span.name for span in exported}
        given = [span for span in exported if span.parent is not None and span.parent.is_remote]
        return [_seen(span, names, known=bool(given)) for span in exported]

    def numbers(self) -> dict[Series, float | tuple[float, int]]:
        """As they are read."""
        found: dict[Series, float | tuple[float, int]] = {}
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    match metric.data:
                        case Sum(points) | Gauge(points):
                            for point in points:
                                found[metric.name, _labels(point.attributes)] = point.value
                        case Histogram(points):
                            for each in points:
                                value = (each.sum, each.count)
                                found[metric.name, _labels(each.attributes)] = value
                        case _:
                            raise AssertionError(metric.name)
        return found


def _labels(attributes: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, str(value)) for key, value in (attributes or {}).items()))


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def _seen(span: ReadableSpan, names: Mapping[int, str], *, known: bool) -> SeenSpan:
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    assert span.start_time is not None
    assert span.end_time is not None
    above = None if parent is None else names.get(parent.span_id, f"{parent.span_id:016x}")
    trace = f"{context.trace_id:032x}" if known else None
    return SeenSpan(span.name, trace, above, span.start_time / 1e9, span.end_time / 1e9)


HARNESSES: Mapping[str, Callable[[], Harness]] = {
    "memory": MemoryHarness,
    "opentelemetry": OpenTelemetryHarness,
}
