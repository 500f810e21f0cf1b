"""OpenTelemetry: spans and samples over OTLP/HTTP, told where by the standard variables.

Knows names of OpenTelemetry and nothing of workers. Needs the extra `otel`.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perago.ports.telemetry import ExportedSignals, FinishedSpan, Telemetry, buckets_of

LOGGER = logging.getLogger("perago.telemetry")
# A collector that is gone must not hold a worker that has drained. What is not taken by then is
# lost and the log says so.
CLOSE_SECONDS_MAX = 3.0
NANOSECONDS = 1_000_000_000  # of one second: OpenTelemetry counts time in them
UNITS = {"bytes": "By", "seconds": "s"}  # by the last word of a name
INSTRUMENTATION = "perago"  # the name of the meter in 0.6.1, by which dashboards find it


@final
class OtlpTelemetry(Telemetry):
    """Spans through a processor, samples through a reader; either may be absent.

    Whatever OpenTelemetry raises is dropped: a lost span or sample is no reason to fail an attempt.
    """

    def __init__(
        self, service: Mapping[str, str], spans: SpanProcessor | None, metrics: MetricReader | None
    ) -> None:
        resource = resource_of(service)
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        if spans is not None:
            self._traces.add_span_processor(spans)
        self._tracer = self._traces.get_tracer(INSTRUMENTATION)
        readers = [] if metrics is None else [metrics]
        self._numbers = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._meter = self._numbers.get_meter(INSTRUMENTATION)

    def span(self, span: FinishedSpan) -> None:
        with suppress(Exception):
            carrier = {} if span.parent is None else {"traceparent": span.parent}
            opened = self._tracer.start_span(
                span.name,
                context=TraceContextTextMapPropagator().extract(carrier),
                kind=SpanKind.CONSUMER,
                attributes=dict(span.facts),
                start_time=_nanoseconds(span.began),
            )
            inside = set_span_in_context(opened)
            for step in span.steps:
                child = self._tracer.start_span(
                    step.name,
                    context=inside,
                    attributes=dict(step.facts),
                    start_time=_nanoseconds(step.began),
                )
                child.end(_nanoseconds(step.ended))
            if span.error is not None:
                opened.set_status(Status(StatusCode.ERROR, span.error))
            opened.end(_nanoseconds(span.ended))

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        with suppress(Exception):  # an instrument of one name is made once and found again
            self._meter.create_counter(name).add(by, dict(labels))

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        with suppress(Exception):
            self._meter.create_gauge(name).set(value, dict(labels))

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        with suppress(Exception):
            self._histogram(name).record(value, dict(labels))

    def close(self) -> None:
        """Both at once, and neither longer than a moment: a collector may be gone."""
        shuts = (
            self._traces.shutdown,
            partial(self._numbers.shutdown, timeout_millis=CLOSE_SECONDS_MAX * 1000),
        )
        threads = [Thread(target=_quietly, args=(shut,), daemon=True) for shut in shuts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_SECONDS_MAX)
        if any(thread.is_alive() for thread in threads):
            text = "the collector did not take the last telemetry within %g seconds"
            LOGGER.warning(text, CLOSE_SECONDS_MAX)

    def _histogram(self, name: str) -> Histogram:
        unit = UNITS.get(name.rpartition("_")[2], "")
        return self._meter.create_histogram(
            name, unit, explicit_bucket_boundaries_advisory=buckets_of(name)
        )


def open_otlp(signals: ExportedSignals, service: Mapping[str, str]) -> OtlpTelemetry:
    """Start the exporters; addresses that are not given here come from the environment."""
    spans = BatchSpanProcessor(OTLPSpanExporter()) if signals.traces else None
    reader = None
    if signals.metrics:
        exporter = OTLPMetricExporter(
            endpoint=signals.metrics_endpoint,
            timeout=signals.metrics_timeout_seconds,
            compression=Compression.Gzip if signals.metrics_gzip else None,
        )
        reader = PeriodicExportingMetricReader(
            exporter, export_interval_millis=signals.metrics_interval_millis
        )
    return OtlpTelemetry(service, spans, reader)


def resource_of(service: Mapping[str, str]) -> Resource:
    """The service that sends; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over ours."""
    detected = OTELResourceDetector().detect()
    return Resource.create().merge(Resource(dict(service))).merge(detected)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * NANOSECONDS)


def _quietly(shut: Callable[[], object]) -> None:
    with suppress(Exception):  # a lost span or sample is no reason to fail
        shut()
